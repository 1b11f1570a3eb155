"""Keep code of a source away from the target, and record what was skipped for that.

Every piece of code in a statement is judged by the target itself. What may not be made is taken
out: the structure arrives, and where rows would have got their values by it, the table is copied
again. With ``trust_code`` nothing is looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from postgast import pg_query_pb2

from pgrepl.ddl_capture.apply.target_session import PLAIN, Environment
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.definition import TableDefinition
from pgrepl.ddl_capture.policy.code_places import CodePlace, keep, remove_code
from pgrepl.ddl_capture.policy.domains import clean_domains
from pgrepl.ddl_capture.policy.expectation import Absent
from pgrepl.ddl_capture.policy.homonyms import reason_of_homonyms
from pgrepl.ddl_capture.policy.judge import (
    Literals,
    Question,
    ask,
    ask_view,
    find_foreign,
    read_literals,
    read_type_default,
)
from pgrepl.ddl_capture.policy.literals import reason_not_to_compute, reason_not_to_trust
from pgrepl.ddl_capture.policy.questions import Questions
from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.source_code.policy import ALLOWED, Verdict, has_computed_sequence
from pgrepl.store.skipped_code import SkippedCode, read_skipped_of, record_skipped
from pgrepl.syntax.parse import (
    Tree,
    parse,
    print_expression,
    print_type,
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
    #: That of the statement at hand.
    _environment: Environment = PLAIN
    #: Why rows stay without values because of what had no name on the target.
    _unnamed: str | None = None
    _questions: Questions = field(init=False)

    def __post_init__(self) -> None:
        """Prepare; nothing is asked yet."""
        self._questions = Questions(self.target, self.tables)

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

    def screen(self, tree: Tree, environment: Environment) -> Screened:
        """Take out of a statement what may not be made on the target."""
        self._screened = Screened(void=self._unnamed)
        self._environment = environment
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
        verdict = ask_view(self.target.connection, self._environment, own, statement)
        if verdict.reason is None:
            return True
        schema, name = self._questions.on_source(statement.view)
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
            verdicts.append(self._judge(place, PLAIN))
            return verdicts[-1].is_allowed

        remove_code(tree, is_allowed)
        return next((verdict for verdict in verdicts if not verdict.is_allowed), ALLOWED)

    def _remove_skipped(self, tree: Tree) -> None:
        """Take out of an ALTER TABLE what is about constraints and indexes that were skipped."""
        kind, statement = statement_of(tree)
        if kind != "AlterTableStmt":
            return
        skipped = read_skipped_of(
            self.target.connection,
            self.target.source_id,
            self._questions.on_source(statement.relation),
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
        if self._is_plain_here(place):
            verdict = Verdict("the column is a plain one on the target")
        else:
            verdict = self._judge(place, self._environment)
        if verdict.is_allowed:
            if place.fills_rows:
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
        is_proven = not self.is_trusted and place.kind != "default"
        question = None if is_proven else self._questions.make(place, is_harmless_enough=False)
        if question is not None and not self._ask(question, self._environment).is_allowed:
            self._screened.unsure = (
                f'column "{place.column}" was converted in a way that is not proven immutable'
                if place.kind == "conversion"
                else f'column "{place.column}" was added with values that only the source knows'
            )
            return
        reason = self._doubt(place)
        if reason is not None:
            self._screened.unsure = f'column "{place.column}" got values by {reason}'

    def _doubt(self, place: CodePlace) -> str | None:
        """Return why an immutable expression may have another value here; None: it has not."""
        homonym = reason_of_homonyms(place.expressions, self.target.event.homonyms)
        if homonym is not None:
            return homonym
        constants = [
            part.sval.sval
            for expression in place.expressions
            for part in walk(expression)
            if part.DESCRIPTOR.name == "A_Const" and part.HasField("sval")
        ]
        is_constant = all(item.HasField("a_const") for item in place.expressions)
        if place.expressions and is_constant and not constants:
            return None
        literals = self._read_literals(place, self._environment)
        if literals is None:
            return None
        return reason_not_to_trust(literals, constants, self._environment, self.target.event.locale)

    def _read_literals(self, place: CodePlace, environment: Environment) -> Literals | None:
        question = self._questions.make(place, is_harmless_enough=False, with_constants=True)
        if question is None:
            return None
        return read_literals(self.target.connection, environment, question)

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
            if self._has_other_default(statement.relation, column):
                self._screened.unsure = (
                    f'column "{column.colname}" was added with values that only the source knows'
                )

    def _has_other_default(self, relation: Tree, column: Tree) -> bool:
        """Whether the domain of a column may give rows other values than the source's does."""
        type_sql = print_type(column.type_name)
        is_domain, default = read_type_default(
            self.target.connection, self.target.search_path, type_sql
        )
        if not is_domain:
            return False
        table = self._questions.reported(relation)
        reported = None if table is None else table.find_column(column.colname)
        if reported is None or not self.target.event.settings:
            # An older capture does not tell it.
            return True
        if (default is None) != (reported.type_default is None):
            return True
        if default is None:
            return False
        if not self._questions.is_same(default, reported.type_default or ""):
            return True
        question = Question(expressions=[default], place=column.colname, type_sql=type_sql)
        # Type and default are written by this path.
        return not self._ask(question, Environment(self.target.search_path)).is_allowed

    def _is_plain_here(self, place: CodePlace) -> bool:
        """Whether it computes a generated column of the source that is a plain one here."""
        if place.table is None or place.kind not in ("conversion", "generated column"):
            return False
        key = (place.table.schemaname, place.table.relname)
        here = self.target.definitions([key]).get(key)
        there = self._questions.reported(place.table)
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
            where = (self._questions.source_schema(schema[0] if schema else ""), name)
        elif place.table is None or place.kind in _COMPARED or place.kind == "conversion":
            return
        else:
            kind, where = place.kind, self._questions.on_source(place.table)
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

    def _judge(self, place: CodePlace, environment: Environment) -> Verdict:
        verdict = ALLOWED if self.is_trusted else self._judge_code(place, environment)
        if not verdict.is_allowed or place.kind != "generated column":
            return verdict
        # Whoever may run it, rows would have other values by it.
        literals = self._read_literals(place, environment)
        if literals is None:
            return ALLOWED
        return Verdict(reason_not_to_compute(literals, self.target.event.locale))

    def _judge_code(self, place: CodePlace, environment: Environment) -> Verdict:
        if place.kind == "range function" or (place.names and not place.is_domain):
            what = "function" if place.kind == "range function" else "operator class"
            foreign = find_foreign(self.target.connection, environment.path, what, place.names)
            if foreign is not None:
                return foreign
        if any(map(has_computed_sequence, place.expressions)):
            return Verdict("it counts up a sequence whose name is computed")
        question = self._questions.make(place, is_harmless_enough=place.kind == "default")
        return ALLOWED if question is None else self._ask(question, environment)

    def _ask(self, question: Question, environment: Environment) -> Verdict:
        own = self.target.names.schemas.values()
        return ask(self.target.connection, environment, list(own), question)


def _has_commands(tree: Tree) -> bool:
    kind, statement = statement_of(tree)
    return kind != "AlterTableStmt" or len(statement.cmds) > 0


def _generated(table: TableDefinition | None, name: str | None) -> str | None:
    column = None if table is None else table.find_column(name)
    return None if column is None else column.generated
