"""Keep code of a source away from the target, and remember what that leaves out.

Every piece of code in a statement is judged by the target itself. What may not be made is taken
out: the structure arrives, and where rows would have got their values by it, the table is copied
again. With ``trust_code`` nothing is looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from postgast import pg_query_pb2

from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.policy.code_places import CodePlace, keep, remove_code
from pgrepl.ddl_capture.policy.domains import clean_domains
from pgrepl.ddl_capture.policy.expectation import Absent
from pgrepl.ddl_capture.policy.judge import Question, ask, ask_view, find_foreign, read_type_default
from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.source_code.policy import ALLOWED, Verdict, has_computed_sequence, is_constant
from pgrepl.store.skipped_code import SkippedCode, read_skipped_of, record_skipped
from pgrepl.syntax.parse import (
    Tree,
    parse,
    parse_one,
    print_expression,
    print_type,
    quoted_names,
    to_sql,
    walk,
)
from pgrepl.syntax.remap import RemapError, remap
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["Screened", "Screening"]

_AT = pg_query_pb2.AlterTableType
_BY_NAME = frozenset({_AT.AT_ValidateConstraint, _AT.AT_AlterConstraint})
_CON = pg_query_pb2.ConstrType
_VALUES = frozenset({_CON.CONSTR_DEFAULT, _CON.CONSTR_GENERATED, _CON.CONSTR_IDENTITY})
#: Kinds that the structure of a table shows: they are recorded when it is compared.
_COMPARED = frozenset({"check", "default", "exclusion constraint", "generated column"})


@dataclass(slots=True)
class Screened:
    """What became of a statement."""

    #: Whether anything of it is left, and whether all of it is.
    is_left: bool = True
    is_changed: bool = False
    #: Why rows that are there do not get their values by it, and have to be copied.
    void: str | None = None
    #: Why rows that are there may get other values by it than on the source.
    unsure: str | None = None
    #: The statement without any of its code, for what else may be in it.
    rest: Tree = None


@dataclass(slots=True)
class Screening:
    """The judge of one command's statements, which have the target's names."""

    target: Workspace
    #: Structures of the source's tables after the command.
    tables: Sequence[TableDefinition]
    #: ``trust_code`` of the source.
    is_trusted: bool = False
    _screened: Screened = field(default_factory=Screened)
    #: Why rows stay without values because of what had no name on the target.
    _unnamed: str | None = None

    def remove_unnamed(self, tree: Tree) -> bool:
        """Take code out of a statement with the source's names that names what is not replicated.

        False: nothing is left of it.
        """
        if self.is_trusted:
            return True
        self._screened = Screened()
        is_left = remove_code(tree, self._is_nameable)
        self._unnamed = self._screened.void
        return is_left

    def _is_nameable(self, place: CodePlace) -> bool:
        parts = [*place.expressions, *(element for element, _ in place.operators)]
        try:
            for expression in parts:
                (tree,) = parse("select 1")
                value = tree.select_stmt.target_list[0].res_target.val
                if expression.DESCRIPTOR.name != "IndexElem":
                    value.CopyFrom(expression)
                    remap(tree, self.target.names)
            for *schema, name in [*place.names, *(names for _, names in place.operators)]:
                if schema:
                    self.target.names.target_schema(schema[-1], name)
        except RemapError as exc:
            self._deny(place, str(exc))
            return False
        return True

    def screen(self, tree: Tree) -> Screened:
        """Take out of a statement what may not be made on the target."""
        self._screened = Screened(void=self._unnamed)
        if not self.is_trusted:
            clean_domains(self.target, tree)
        before = type(tree).FromString(tree.SerializeToString())
        self._screened.rest = type(tree).FromString(tree.SerializeToString())
        if not self.is_trusted:
            remove_code(self._screened.rest, lambda _: False)
        self._remove_skipped(tree)
        self._remove_views(tree)
        self._screened.is_left = (
            self._is_view_kept(tree) and remove_code(tree, self._is_kept) and _has_commands(tree)
        )
        self._screened.is_changed = tree != before
        self._note_implicit_defaults(tree)
        return self._screened

    def _remove_views(self, tree: Tree) -> None:
        """Judge the views that a CREATE SCHEMA makes like any other."""
        kind, statement = statement_of(tree)
        if kind != "CreateSchemaStmt":
            return
        for node in statement.schema_elts:
            if node.HasField("view_stmt") and not node.view_stmt.view.schemaname:
                node.view_stmt.view.schemaname = statement.schemaname
        keep(statement.schema_elts, self._is_view_kept)

    def _is_view_kept(self, tree: Tree) -> bool:
        kind, statement = statement_of(tree)
        if kind != "ViewStmt" or self.is_trusted:
            return True
        own = list(self.target.names.schemas.values())
        verdict = ask_view(self.target.connection, self.target.search_path, own, statement)
        if verdict.reason is None:
            return True
        schema, name = self._on_source(statement.view)
        code = SkippedCode(
            kind="view",
            schema_name=schema,
            table_name=name,
            name="",
            definition=to_sql(statement.query),
            reason=verdict.reason,
        )
        record_skipped(self.target.connection, self.target.source_id, [code])
        self.target.notes.append(f"skipped view {code.shown}: {code.reason}")
        return False

    def judge(self, absent: Absent) -> Verdict:
        """Judge something that the source has and the target has not."""
        try:
            (tree,) = parse(remap(parse(absent.statement)[0], self.target.names).sql)
        except RemapError as exc:
            return Verdict(str(exc))
        verdicts: list[Verdict] = []

        def is_allowed(place: CodePlace) -> bool:
            # The source prints expressions with all schemas but PostgreSQL's own.
            verdicts.append(self._judge(place, ()))
            return verdicts[-1].is_allowed

        remove_code(tree, is_allowed)
        return next((verdict for verdict in verdicts if not verdict.is_allowed), ALLOWED)

    def _remove_skipped(self, tree: Tree) -> None:
        """Take out of an ALTER TABLE what is about constraints and indexes that were skipped."""
        kind, statement = statement_of(tree)
        if kind != "AlterTableStmt":
            return
        skipped = read_skipped_of(
            self.target.connection, self.target.source_id, self._on_source(statement.relation)
        )
        names = {name for _, name in skipped}
        kept = []
        for node in statement.cmds:
            command = node.alter_table_cmd
            name = command.name or getattr(command, "def").constraint.conname
            if command.subtype in _BY_NAME and name in names:
                self.target.notes.append(f'constraint "{name}" was skipped')
                continue
            if command.subtype == _AT.AT_ReplicaIdentity:
                identity = getattr(command, "def").replica_identity_stmt
                if ("index", identity.name) in skipped:
                    identity.name, identity.identity_type = "", "f"
            kept.append(type(node).FromString(node.SerializeToString()))
        if len(kept) != len(statement.cmds):
            del statement.cmds[:]
            statement.cmds.extend(kept)

    def _is_kept(self, place: CodePlace) -> bool:
        verdict = ALLOWED
        if self._is_plain_here(place):
            verdict = Verdict("the column is a plain one on the target")
        elif not self.is_trusted:
            verdict = self._judge(place, self.target.search_path)
        if verdict.is_allowed:
            if place.fills_rows and (self.is_trusted or place.kind == "default"):
                self._note_chance(place)
            return True
        self._deny(place, verdict.reason or "")
        return False

    def _deny(self, place: CodePlace, reason: str) -> None:
        if place.kind == "partition key":
            raise RefusedError(f"its partition key cannot be computed on the target: {reason}")
        column = f' of column "{place.column}"' if place.column else ""
        if place.fills_rows:
            self._screened.void = f"{place.kind}{column} is code that does not run here"
        self.target.notes.append(f"skipped {place.kind}{column}: {reason}")
        self._record(place, reason)

    def _note_chance(self, place: CodePlace) -> None:
        """Note code that may give rows which are there other values than the source's."""
        question = self._question(place, is_harmless_enough=False)
        if question is not None and not self._ask(question, self.target.search_path).is_allowed:
            self._screened.unsure = (
                f'column "{place.column}" was converted in a way that is not proven immutable'
                if place.kind == "conversion"
                else f'column "{place.column}" was added with values that only the source knows'
            )

    def _note_implicit_defaults(self, tree: Tree) -> None:
        """Look at columns that are added with the default of their domain."""
        kind, statement = statement_of(tree)
        for node in statement.cmds if kind == "AlterTableStmt" else ():
            command = node.alter_table_cmd
            column = getattr(command, "def").column_def
            if command.subtype != _AT.AT_AddColumn or any(
                item.constraint.contype in _VALUES for item in column.constraints
            ):
                continue
            type_sql = print_type(column.type_name)
            default = read_type_default(self.target.connection, self.target.search_path, type_sql)
            if default is None:
                continue
            question = Question(expressions=[default], place=column.colname, type_sql=type_sql)
            if not self._ask(question, ()).is_allowed:
                self._screened.unsure = (
                    f'column "{column.colname}" was added with values that only the source knows'
                )

    def _is_plain_here(self, place: CodePlace) -> bool:
        """Whether it computes a generated column of the source that is a plain one here."""
        if place.table is None or place.kind not in ("conversion", "generated column"):
            return False
        key = (place.table.schemaname, place.table.relname)
        here = self.target.definitions([key]).get(key)
        there = self._reported(place.table)
        return (
            _generated(there, place.column) is not None
            and here is not None
            and here.find_column(place.column) is not None
            and _generated(here, place.column) is None
        )

    def _record(self, place: CodePlace, reason: str) -> None:
        if place.is_domain or place.kind == "range function":
            *schema, name = place.names[0]
            if place.kind == "range function":
                return
            kind = f"domain {place.kind}"
            where = (self._source_schema(schema[0] if schema else ""), name)
        elif place.table is None or place.kind in _COMPARED or place.kind == "conversion":
            return
        else:
            kind, where = place.kind, self._on_source(place.table)
        definition = "; ".join(map(print_expression, place.expressions)) or None
        skipped = SkippedCode(
            kind=kind,
            schema_name=where[0],
            table_name=where[1],
            name=place.name or "",
            definition=definition,
            reason=reason,
        )
        record_skipped(self.target.connection, self.target.source_id, [skipped])

    # What the target is asked.

    def _judge(self, place: CodePlace, path: Sequence[str]) -> Verdict:
        if place.kind == "range function" or (place.names and not place.is_domain):
            what = "function" if place.kind == "range function" else "operator class"
            foreign = find_foreign(self.target.connection, path, what, place.names)
            if foreign is not None:
                return foreign
        if any(map(has_computed_sequence, place.expressions)):
            return Verdict("it counts up a sequence whose name is computed")
        question = self._question(place, is_harmless_enough=place.kind == "default")
        return ALLOWED if question is None else self._ask(question, path)

    def _ask(self, question: Question, path: Sequence[str]) -> Verdict:
        own = self.target.names.schemas.values()
        return ask(self.target.connection, path, list(own), question)

    def _question(self, place: CodePlace, *, is_harmless_enough: bool) -> Question | None:
        """Return what is to be asked; None when there is nothing in it but constants."""
        own = list(self.target.names.schemas.values())
        expressions = [
            print_expression(expression)
            for expression in place.expressions
            if not (
                # What rows get must be the same, and a cast may look at the clock.
                expression.HasField("a_const") if place.fills_rows else is_constant(expression, own)
            )
        ]
        if place.kind == "conversion" and not place.expressions:
            expressions = [quoted_names(place.column or "")]
        for element, names in place.operators:
            value = (
                print_expression(element.expr)
                if element.HasField("expr")
                else quoted_names(element.name)
            )
            operator = ".".join([*(quoted_names(name) for name in names[:-1]), names[-1]])
            expressions.append(f"({value}) operator({operator}) ({value})")
        if not expressions:
            return None
        columns = self._columns(place)
        kind = place.type_name
        type_sql = None if kind is None or place.kind == "check" else print_type(kind)
        if type_sql is None and place.kind in ("default", "generated column"):
            type_sql = (
                ".".join(map(quoted_names, place.names[0]))
                if place.is_domain
                else columns.get(place.column or "")
            )
        mentioned = (
            {
                field.string.sval
                for expression in place.expressions
                for part in walk(expression)
                if part.DESCRIPTOR.name == "ColumnRef"
                for field in part.fields
            }
            | {element.name for element, _ in place.operators}
            | {place.column}
        )
        return Question(
            expressions=expressions,
            place="value" if place.table is None else place.table.relname,
            columns=[(name, kind) for name, kind in columns.items() if name in mentioned],
            type_sql=type_sql,
            is_harmless_enough=is_harmless_enough,
        )

    def _columns(self, place: CodePlace) -> dict[str, str]:
        """Return the types of the columns that an expression sees, as SQL."""
        if place.table is None:
            named = ".".join(map(quoted_names, place.names[0]))
            return {"value": print_type(place.type_name) if place.type_name else named}
        key = (place.table.schemaname, place.table.relname)
        here = self.target.definitions([key]).get(key)
        columns = {column.name: column.type for column in (here.columns if here else ())}
        # A conversion sees the columns as they were.
        reported = None if place.kind == "conversion" else self._reported(place.table)
        for column in reported.columns if reported else ():
            tree = parse_one(f"select null::{column.type}")
            try:
                sql = remap(tree, self.target.names).sql
            except RemapError:
                continue
            (tree,) = parse(sql)
            value = tree.select_stmt.target_list[0].res_target.val
            columns[column.name] = print_type(value.type_cast.type_name)
        return columns

    def _reported(self, relation: Tree) -> TableDefinition | None:
        key = self._on_source(relation)
        return next((t for t in self.tables if t.key == key), None)

    def _on_source(self, relation: Tree) -> TableName:
        return self._source_schema(relation.schemaname), relation.relname

    def _source_schema(self, schema: str) -> str:
        sources = {target: source for source, target in self.target.names.schemas.items()}
        return sources.get(schema, schema)


def _has_commands(tree: Tree) -> bool:
    kind, statement = statement_of(tree)
    return kind != "AlterTableStmt" or len(statement.cmds) > 0


def _generated(table: TableDefinition | None, name: str | None) -> str | None:
    column = None if table is None else table.find_column(name)
    return None if column is None else column.generated
