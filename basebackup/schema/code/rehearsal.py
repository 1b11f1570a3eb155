"""Try out on the target what a dump wants to compute there, and undo it all.

The types and tables of the dump are made bare, without an expression, in schemas of no name that
matters; then PostgreSQL is asked about each expression in its place. Nothing of it stays, and no
row is ever there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby

import psycopg
from postgast import pg_query_pb2
from psycopg.sql import SQL, Identifier

from pgrepl.basebackup.schema.code.expressions import Element, Key, sort_out
from pgrepl.basebackup.schema.dump import Dump
from pgrepl.basebackup.schema.errors import SchemaError
from pgrepl.basebackup.schema.source_objects import SourceObjects
from pgrepl.basebackup.schema.statements.subject import Subject, subject_of
from pgrepl.config.naming import shown_name
from pgrepl.postgres.connect import Connection
from pgrepl.source_code.policy import CATALOG, Name, NameKind, Verdict, foreign, names_used
from pgrepl.source_code.probe import CodeJudge, Probe, read_domain, read_place
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import (
    SqlSyntaxError,
    StatementTexts,
    Tree,
    parse,
    parse_one,
    parse_relation,
    walk,
)
from pgrepl.syntax.remap import ConfinedMap, RemapError, remap
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["judge_dump"]

logger = logging.getLogger(__name__)

_OBJECT = pg_query_pb2.ObjectType
_AT = pg_query_pb2.AlterTableType
_CON = pg_query_pb2.ConstrType
_VIEWS = frozenset({"view", "materialized view"})
_TYPES = frozenset(
    {
        *("AlterTSConfigurationStmt", "CompositeTypeStmt", "CreateDomainStmt", "CreateEnumStmt"),
        *("CreateRangeStmt", "CreateSeqStmt"),
    }
)
_DEFINED = frozenset(
    {_OBJECT.OBJECT_COLLATION, _OBJECT.OBJECT_TSCONFIGURATION, _OBJECT.OBJECT_TSDICTIONARY}
)
_ABOUT_IT = ("0A", "22", "2B", "42", "54")


def judge_dump(
    target: Connection,
    dump: Dump,
    objects: SourceObjects,
    members: Mapping[tuple[str, str], str],
    locale: str,
) -> dict[Key, str]:
    """Return what of the dump may not be made on the target, each with the reason.

    ``members`` says where on the target the members of extensions are, ``locale`` what strings of
    the source go by.
    """
    candidates = list(_candidates(dump, objects))
    if not candidates:
        return {}
    schemas = {
        schema: f"pgrepl_rehearsal_{number:05}"
        for number, schema in enumerate(sorted(objects.schemas), 1)
    }
    rehearsal = _Rehearsal(target, objects, ConfinedMap(schemas, members), dump.texts, locale)
    with target.transaction(force_rollback=True):
        rehearsal.run(dump, candidates)
    logger.debug("expressions judged: %d, refused: %d", len(candidates), len(rehearsal.refused))
    return rehearsal.refused


def _candidates(dump: Dump, objects: SourceObjects) -> Iterator[Element]:
    found: list[Element] = []

    def collect(element: Element) -> bool:
        found.append(element)
        return True

    for tree in (*dump.before_data, *dump.after_data):
        sort_out(tree, collect)
    tables = {table.key for table in objects.tables}
    views = {view.key for view in objects.views.chosen}
    types = {(item.schema, item.name) for item in (*objects.needed, *objects.views.needed)}
    for element in found:
        place = (element.schema, element.table)
        if element.kind in _VIEWS:
            is_ours = place in views
        elif element.kind.startswith(("domain", "range")):
            is_ours = place in types
        else:
            is_ours = place in tables | views and element.kind != "foreign key"
        if is_ours:
            yield element


@dataclass(slots=True)
class _Rehearsal:
    target: Connection
    objects: SourceObjects
    names: ConfinedMap
    texts: StatementTexts
    locale: str
    refused: dict[Key, str] = field(default_factory=dict)

    def run(self, dump: Dump, candidates: Sequence[Element]) -> None:
        self.target.execute("set local check_function_bodies = off")
        for schema in self.names.schemas.values():
            self.target.execute(SQL("create schema {}").format(Identifier(schema)))
        self._make(dump, candidates)
        judge = CodeJudge(self.target, list(self.names.schemas.values()), self.locale)
        for element in candidates:
            if element.kind in _VIEWS:
                self._judge_view(judge, element)
        ranges = [element for element in candidates if element.kind.startswith("range")]
        for element in ranges:
            self._note(element, self._judge_range(judge, element))
        others = [e for e in candidates if e.kind not in _VIEWS and e not in ranges]

        def place_of(element: Element) -> tuple[bool, str, str]:
            return element.kind.startswith("domain"), element.schema, element.table

        for (is_domain, schema, table), group in groupby(sorted(others, key=place_of), place_of):
            read = read_domain if is_domain else read_place
            place = read(self.target, self.names.target_schema(schema), table)
            if place is None:
                # A view that is not made.
                continue
            with judge.at(place) as probe:
                for element in group:
                    self._note(element, self._judge(probe, element))

    def _note(self, element: Element, verdict: Verdict) -> None:
        if verdict.reason is not None:
            self.refused[element.key] = self._with_source_names(verdict.reason)

    def _with_source_names(self, reason: str) -> str:
        for schema, place in self.names.schemas.items():
            reason = reason.replace(place, schema)
        return reason

    # --- making -------------------------------------------------------------------------------

    def _make(self, dump: Dump, candidates: Sequence[Element]) -> None:
        """Make types, and the tables that are asked about or that those need."""
        creates = {
            (subject.schema, subject.name): tree
            for tree, subject in _with_subjects(dump.before_data)
            if tree.HasField("create_stmt")
        }
        has_views = any(element.kind in _VIEWS for element in candidates)
        wanted = set(creates) if has_views else _closure(creates, dump, candidates)
        needed = {item.subject for item in (*self.objects.needed, *self.objects.views.needed)}
        for tree, subject in _with_subjects(dump.before_data):
            if tree.HasField("create_stmt"):
                if (subject.schema, subject.name) in wanted:
                    self.target.execute(self._bare(tree))
            elif _is_type(tree) and _is_needed(subject, needed):
                self._make_type(tree, subject)
        for tree in dump.after_data if has_views else ():
            # A query that groups by a primary key has columns that depend on it.
            if _is_primary_key(tree) and subject_of(tree) in needed:
                self.target.execute(remap(tree, self.names, self.texts.find(tree)).sql.encode())

    def _make_type(self, tree: Tree, subject: Subject) -> None:
        try:
            with self.target.transaction():
                self.target.execute(self._bare(tree))
        except psycopg.Error as exc:
            if exc.sqlstate is None or not exc.sqlstate.startswith(_ABOUT_IT):
                raise
            reason = f"PostgreSQL refuses it on the target: {exc.diag.message_primary}"
            key = ("type", subject.schema, subject.name, "")
            self.refused[key] = self._with_source_names(reason)

    def _bare(self, tree: Tree) -> bytes:
        bare = sort_out(tree, lambda _: False)
        if bare is None:
            message = "a statement that makes a table or a type was refused as a whole"
            raise AssertionError(message)
        if bare.HasField("create_stmt"):
            bare.create_stmt.ClearField("partspec")
        try:
            return remap(bare, self.names, self.texts.find(bare)).sql.encode()
        except RemapError as exc:
            kind, _ = statement_of(tree)
            raise SchemaError(
                f"the {kind} of {subject_of(tree)} cannot be remapped: {exc}"
            ) from exc

    # --- judging ------------------------------------------------------------------------------

    def _judge(self, probe: Probe, element: Element) -> Verdict:
        verdict = self._by_source_names(element.trees)
        views = {view.key for view in self.objects.views.chosen}
        for name in (name for tree in element.trees for name in _constants(tree)):
            if name in views:
                # They are made last.
                return Verdict(f"it names {shown_name(*name)}, which is a view")
        if not verdict.is_allowed:
            return verdict
        try:
            trees = [self._remapped(tree) for tree in element.trees]
        except (RemapError, SqlSyntaxError) as exc:
            return Verdict(str(exc))
        return _first(self._ask(probe, element, tree) for tree in trees)

    def _ask(self, probe: Probe, element: Element, tree: Tree) -> Verdict:
        if element.kind == "index":
            return probe.index(tree)
        if element.kind == "exclusion constraint":
            return probe.constraint(tree)
        if element.kind in ("default", "domain default"):
            return probe.default(tree, element.name or "value")
        if element.kind == "generated column":
            return probe.value(tree, dict(probe.place.columns)[element.name])
        if tree.DESCRIPTOR.name == "Node" and tree.HasField("partition_elem"):
            return probe.judge.names(tree)
        return probe.expression(tree)

    def _judge_view(self, judge: CodeJudge, element: Element) -> None:
        (tree,) = element.trees
        verdict = self._by_source_names(element.trees)
        if verdict.is_allowed:
            try:
                sql = remap(tree, self.names, self.texts.find(tree)).sql
                verdict = judge.view(parse_one(sql))
            except (RemapError, SqlSyntaxError) as exc:
                verdict = Verdict(str(exc))
            else:
                if verdict.is_allowed:
                    # Others may stand on it.
                    self.target.execute(sql.encode())
        self._note(element, verdict)

    def _judge_range(self, judge: CodeJudge, element: Element) -> Verdict:
        names = texts(element.trees[0].def_elem.arg.type_name.names)
        is_class = element.name == "subtype_opclass"
        kind: NameKind = "operator class" if is_class else "function"
        schema = names[-2] if len(names) > 1 else CATALOG
        if schema != CATALOG and (schema, names[-1]) not in self.names.members:
            return Verdict(foreign(kind, names[-1]))
        place = self.names.target_schema(schema, names[-1])
        return judge.known([Name(kind, place, names[-1])])

    def _by_source_names(self, trees: Iterable[Tree]) -> Verdict:
        """Refuse what is the source's own by its name, whatever bears that name on the target."""
        for tree in trees:
            for name in sorted(names_used(tree)):
                if name.schema == CATALOG or (name.schema, name.name) in self.names.members:
                    continue
                is_harmless = name.kind in ("type", "collation")
                if not is_harmless or name.schema not in self.names.schemas:
                    return Verdict(foreign(name.kind, name.name))
        return Verdict()

    def _remapped(self, tree: Tree) -> Tree:
        """Give an expression, a constraint or a statement the target's names."""
        if tree.DESCRIPTOR.name == "Constraint":
            (statement,) = parse("alter table x add check (true)")
            command = statement.alter_table_stmt.cmds[0].alter_table_cmd
            getattr(command, "def").constraint.CopyFrom(tree)
            (done,) = parse(remap(statement, self.names).sql)
            return getattr(done.alter_table_stmt.cmds[0].alter_table_cmd, "def").constraint
        if tree.HasField("index_stmt"):
            (done,) = parse(remap(tree, self.names).sql)
            return done
        if tree.HasField("partition_elem"):
            (statement,) = parse("create table x (x int) partition by range (x)")
            statement.create_stmt.partspec.part_params[0].CopyFrom(tree)
            (done,) = parse(remap(statement, self.names).sql)
            return done.create_stmt.partspec.part_params[0]
        (statement,) = parse("select x")
        statement.select_stmt.target_list[0].res_target.val.CopyFrom(tree)
        (done,) = parse(remap(statement, self.names).sql)
        return done.select_stmt.target_list[0].res_target.val


def _first(verdicts: Iterable[Verdict]) -> Verdict:
    return next((verdict for verdict in verdicts if not verdict.is_allowed), Verdict())


def _with_subjects(trees: Iterable[Tree]) -> Iterator[tuple[Tree, Subject]]:
    for tree in trees:
        subject = subject_of(tree)
        if subject is not None:
            yield tree, subject


def _is_type(tree: Tree) -> bool:
    kind, statement = statement_of(tree)
    return kind in _TYPES or (kind == "DefineStmt" and statement.kind in _DEFINED)


def _is_needed(subject: Subject, needed: set[Subject]) -> bool:
    # A composite type has its name from pg_class.
    return subject in needed or (
        subject.catalog == "pg_type" and Subject("pg_class", subject.schema, subject.name) in needed
    )


def _is_primary_key(tree: Tree) -> bool:
    kind, statement = statement_of(tree)
    if kind != "AlterTableStmt" or len(statement.cmds) != 1:
        return False
    command = statement.cmds[0].alter_table_cmd
    definition = getattr(command, "def")
    is_key: bool = definition.constraint.contype == _CON.CONSTR_PRIMARY
    return is_key and command.subtype == _AT.AT_AddConstraint


def _closure(
    creates: Mapping[tuple[str, str], Tree], dump: Dump, candidates: Iterable[Element]
) -> set[tuple[str, str]]:
    """Return the tables that expressions stand in, and those that these are made of."""
    types = [tree for tree in dump.before_data if _is_type(tree)]
    due = {(element.schema, element.table) for element in candidates} & set(creates)
    due |= {name for tree in types for name in _relations(tree)} & set(creates)
    found: set[tuple[str, str]] = set()
    while due:
        key = due.pop()
        found.add(key)
        due |= (set(_relations(creates[key])) & set(creates)) - found
    return found


def _relations(tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield the tables and types that a statement names."""
    for part in walk(tree):
        if part.DESCRIPTOR.name == "TypeName":
            names = texts(part.names)
            if len(names) > 1:
                yield names[-2], names[-1]
        elif part.DESCRIPTOR.name == "RangeVar":
            yield part.schemaname, part.relname
    yield from _constants(tree)


def _constants(tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield the relations that constants name."""
    for part in walk(tree):
        if part.DESCRIPTOR.name != "TypeCast" or not part.arg.a_const.HasField("sval"):
            continue
        if texts(part.type_name.names)[-1] == "regclass":
            # A relation that does not exist any more is printed as a number.
            with suppress(SqlSyntaxError):
                yield parse_relation(part.arg.a_const.sval.sval)
