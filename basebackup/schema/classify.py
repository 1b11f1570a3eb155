"""Sort a dump: what makes the tables, what follows the data, and what is left out, by name.

Pure: trees in, statements for the target out. Every statement of the dump ends up in one of the
three; one that is of no known kind, or that cannot be given the target's names, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import get_args

from postgast import pg_query_pb2
from psycopg.sql import SQL, Identifier

from pgrepl.basebackup.schema.dump import Dump
from pgrepl.basebackup.schema.errors import SchemaError, UnknownStatementError
from pgrepl.basebackup.schema.late_checks import family_tables, take_checks
from pgrepl.basebackup.schema.needed_objects import LeftOut
from pgrepl.basebackup.schema.skipped import LEFT_OUT, left_out_comment, left_out_of
from pgrepl.basebackup.schema.source_objects import SourceObjects
from pgrepl.basebackup.schema.subject import Subject, statistics_of, subject_of
from pgrepl.store.copy_work import Phase
from pgrepl.store.skipped_code import SkippedCode
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import StatementTexts, Tree
from pgrepl.syntax.remap import RemapError, SchemaMap, remap
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["PHASES", "ROW_PHASES", "Phase", "SchemaPlan", "Step", "sift"]

#: In this order, each finished before the next begins.
PHASES: tuple[Phase, ...] = get_args(Phase)
#: These look at rows of two tables: they hold only between tables copied at the same moment.
ROW_PHASES: tuple[Phase, ...] = ("validate", "valid_foreign_key")

_AT = pg_query_pb2.AlterTableType
_CON = pg_query_pb2.ConstrType
_OBJECT = pg_query_pb2.ObjectType
_INDEX_CONSTRAINTS = frozenset({_CON.CONSTR_PRIMARY, _CON.CONSTR_UNIQUE, _CON.CONSTR_EXCLUSION})
# Settings of pg_dump's own session, and schemas, which we make ourselves.
_IGNORED = frozenset({"VariableSetStmt", "SelectStmt", "CreateSchemaStmt"})
_VIEWS = frozenset({"CreateTableAsStmt", "ViewStmt"})
_NOT_NEEDED = "no replicated table needs it"
_KINDS = {"pg_proc": "function", "pg_type": "type", "pg_class": "sequence or table"}


@dataclass(frozen=True, slots=True)
class Step:
    """A statement that runs after the data."""

    phase: Phase
    #: The table that it locks, by its name on the source.
    schema: str
    table: str
    sql: str


@dataclass(slots=True)
class SchemaPlan:
    """A dump, sorted."""

    #: Run in one transaction, before the data.
    before: list[str] = field(default_factory=list)
    #: Run after the data, phase by phase.
    steps: list[Step] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    #: What calls code of the source and is not made for that reason.
    skipped: list[SkippedCode] = field(default_factory=list)


def sift(
    dump: Dump, objects: SourceObjects, names: SchemaMap, *, with_all_indexes: bool
) -> SchemaPlan:
    """Sort a dump.

    Raises
    ------
    SchemaError
        naming the statement that cannot be made to work on the target.

    """
    sifter = _Sifter(objects, names, dump.texts, with_all_indexes=with_all_indexes)
    sifter.family = family_tables(dump.before_data)
    for tree in dump.before_data:
        sifter.take_before(tree)
    for tree in (*dump.after_data, *sifter.late_comments):
        sifter.take_after(tree)
    sifter.plan.left_out += objects.unseen
    return sifter.plan


class _Sifter:
    def __init__(
        self,
        objects: SourceObjects,
        names: SchemaMap,
        texts: StatementTexts,
        *,
        with_all_indexes: bool,
    ) -> None:
        self.plan = SchemaPlan()
        self._names = names
        self._texts = texts
        self._with_all_indexes = with_all_indexes
        self._tables = {table.key: table for table in objects.tables}
        self._needed = {item.subject: item for item in objects.needed}
        self._views = {view.key: view for view in objects.views.chosen}
        self._view_needs = {item.subject: item for item in objects.views.needed}
        self._named = {(item.kind, item.name) for item in objects.unseen}
        # A type that a table or a composite type is has its name from pg_class.
        self._made: set[tuple[str, str]] = set()
        self._made_late: set[tuple[str, str]] = set()
        self._foreign_keys: set[tuple[str, str]] = set()
        #: Extended statistics that are made, and when.
        self._statistics: dict[Subject, Phase] = {}
        #: Tables with parents or children.
        self.family: set[tuple[str, str]] = set()
        self._moved_checks: set[tuple[str, ...]] = set()
        #: On constraints of domains: older versions of pg_dump print them before the constraints.
        self.late_comments: list[Tree] = []
        if objects.cut_off:
            raise SchemaError(
                f"replicated tables need {', '.join(objects.cut_off)}, which the patterns leave out"
                " or which cannot be replicated"
            )

    def take_before(self, tree: Tree) -> None:
        """Sort a statement of the section before the data."""
        kind, statement = statement_of(tree)
        subject = subject_of(tree)
        if kind == "CommentStmt" and statement.objtype == _OBJECT.OBJECT_DOMCONSTRAINT:
            self.late_comments.append(tree)
            return
        if self._take_view(tree, kind, subject) or self._leave_out(kind, statement, subject):
            return
        if kind == "CommentStmt":
            self._take_early_comment(tree, statement, subject)
        elif subject is None:
            raise _unknown(kind)
        elif self._is_wanted(subject):
            if kind == "AlterTableStmt" and not self._has_partition(statement):
                return
            if kind == "CreateStmt" and (subject.schema, subject.name) not in self.family:
                tree = self._move_checks(tree, subject)
            self._keep_before(tree, subject)
        elif kind.startswith(("Create", "Define", "Composite")):
            what = _KINDS.get(subject.catalog, subject.catalog.removeprefix("pg_"))
            self.plan.left_out.append(LeftOut(what, str(subject), _NOT_NEEDED))

    def _take_early_comment(self, tree: Tree, statement: Tree, subject: Subject | None) -> None:
        names = tuple(texts(statement.object.list.items))
        if subject is not None and names in self._moved_checks:
            self._add_step("property", subject, self._remap(tree, subject))
        elif self._is_wanted(subject) or statement.objtype == _OBJECT.OBJECT_SCHEMA:
            self._keep_before(tree, subject)
        elif subject is None:
            self.plan.left_out += left_out_comment(statement)

    def _has_partition(self, statement: Tree) -> bool:
        """Whether the copy has the table that is attached, if one is: a foreign table is not."""
        command = statement.cmds[0].alter_table_cmd
        if command.subtype != _AT.AT_AttachPartition:
            return True
        child = _definition(command).partition_cmd.name
        return self._is_wanted(Subject("pg_class", child.schemaname, child.relname))

    def _move_checks(self, tree: Tree, subject: Subject) -> Tree:
        rest, checks = take_checks(tree)
        for name, alter in checks:
            self._moved_checks.add((subject.schema, subject.name, name))
            self._add_step("key", subject, self._remap(alter, subject))
        return rest

    def take_after(self, tree: Tree) -> None:
        """Sort a statement of the section after the data."""
        kind, statement = statement_of(tree)
        subject = subject_of(tree)
        if self._take_view(tree, kind, subject) or self._leave_out(kind, statement, subject):
            return
        handlers: Mapping[str, Callable[[Tree, Tree, Subject], None]] = {
            "AlterDomainStmt": self._take_domain,
            "AlterStatsStmt": self._take_of_statistics,
            "AlterTableStmt": self._take_alter,
            "CommentStmt": self._take_comment,
            "CreateStatsStmt": self._take_statistics,
            "IndexStmt": self._take_index,
        }
        if kind not in handlers:
            raise _unknown(kind)
        if subject is not None:
            handlers[kind](tree, statement, subject)
        elif kind == "CommentStmt":
            self._take_index_comment(tree, statement)

    def _take_view(self, tree: Tree, kind: str, subject: Subject | None) -> bool:
        """Take a statement about a view that is wanted, or about what only views need.

        They run after the data, in the order of the dump, which is that of their dependencies.
        """
        if subject is None or (kind in LEFT_OUT and kind not in _VIEWS):
            return False
        view = self._views.get((subject.schema, subject.name))
        if view is None or subject.catalog != "pg_class":
            item = self._view_needs.get(subject)
            if item is None or self._is_wanted(subject):
                return False
            is_evaluated = item.is_evaluated
            self._add_step("view", subject, self._remap(tree, subject, is_evaluated=is_evaluated))
            return True
        if kind == "IndexStmt":
            statement = statement_of(tree)[1]
            if not self._is_index_wanted(statement, subject):
                return True
            self._made_late.add((subject.schema, statement.idxname))
        elif kind == "CreateStatsStmt":
            self._statistics[statistics_of(statement_of(tree)[1])] = "view"
        self._add_step("view", subject, self._remap(tree, subject))
        if kind == "CreateTableAsStmt" and view.is_populated:
            name = Identifier(self._names.target_schema(view.schema), view.name)
            refresh = SQL("refresh materialized view {}").format(name)
            self._add_step("view", subject, refresh.as_string())
        return True

    def _leave_out(self, kind: str, statement: Tree, subject: Subject | None) -> bool:
        if kind in _IGNORED:
            return True
        item = left_out_of(kind, statement, subject)
        if item is not None:
            # What the patterns take in is named already.
            if (item.kind, item.name) not in self._named:
                self.plan.left_out.append(item)
            return True
        if kind == "AlterTableStmt":
            # Triggers and rules are left out by name; how they fire goes with them.
            command = _AT.Name(statement.cmds[0].alter_table_cmd.subtype)
            return "Trig" in command or "Rule" in command
        return False

    def _is_wanted(self, subject: Subject | None) -> bool:
        if subject is None:
            return False
        return subject in self._needed or (
            subject.catalog == "pg_type"
            and Subject("pg_class", subject.schema, subject.name) in self._needed
        )

    def _keep_before(self, tree: Tree, subject: Subject | None) -> None:
        item = self._needed.get(subject) if subject is not None else None
        self.plan.before.append(
            self._remap(tree, subject, is_evaluated=item is not None and item.is_evaluated)
        )

    def _remap(self, tree: Tree, subject: Subject | None, *, is_evaluated: bool = False) -> str:
        kind, _ = statement_of(tree)
        try:
            remapped = remap(tree, self._names, self._texts.find(tree))
        except RemapError as exc:
            raise SchemaError(f"the {kind} of {subject} cannot be remapped: {exc}") from exc
        bodies = [what for what in remapped.opaque if "body" in what]
        for what in remapped.opaque:
            if what in bodies and is_evaluated:
                raise SchemaError(
                    f"the {what} of function {subject} names a schema, which cannot be remapped,"
                    " and more than a column's default needs the function"
                )
            self.plan.left_out.append(
                LeftOut("renaming", f"{what} of {subject}", "it names a source schema, kept as is")
            )
        return remapped.sql

    def _add_step(self, phase: Phase, subject: Subject, sql: str) -> None:
        self.plan.steps.append(Step(phase, subject.schema, subject.name, sql))

    def _take_index(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        is_ours = (subject.schema, subject.name) in self._tables
        if is_ours and self._is_index_wanted(statement, subject):
            self._made.add((subject.schema, statement.idxname))
            self._add_step("key", subject, self._remap(tree, subject))

    def _is_index_wanted(self, statement: Tree, subject: Subject) -> bool:
        if statement.unique or self._with_all_indexes:
            return True
        name = f"{subject.schema}.{statement.idxname}"
        self.plan.left_out.append(LeftOut("index", name, "not unique; --indexes all makes it"))
        return False

    def _take_property(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        del statement
        if (subject.schema, subject.name) in self._tables:
            self._add_step("property", subject, self._remap(tree, subject))

    def _take_statistics(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        if (subject.schema, subject.name) in self._tables:
            self._statistics[statistics_of(statement)] = "property"
        self._take_property(tree, statement, subject)

    def _take_of_statistics(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        del statement
        if subject in self._statistics:
            self._add_step(self._statistics[subject], subject, self._remap(tree, subject))

    def _take_domain(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        """Take a check that is not valid: rows, and what keys compute of them, may break it."""
        del statement
        if self._is_wanted(subject):
            self._add_step("property", subject, self._remap(tree, subject))

    def _take_comment(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        if statement.objtype == _OBJECT.OBJECT_TABCONSTRAINT:
            names = texts(statement.object.list.items)
            if (names[0], names[2]) in self._foreign_keys:
                # Foreign keys come late, those of partitioned tables after all others.
                self._add_step("view", subject, self._remap(tree, subject))
                return
            if (names[0], names[2]) not in self._made:
                return
        if statement.objtype == _OBJECT.OBJECT_STATISTIC_EXT:
            self._take_of_statistics(tree, statement, subject)
        elif statement.objtype == _OBJECT.OBJECT_DOMCONSTRAINT:
            self._take_domain(tree, statement, subject)
        else:
            self._take_property(tree, statement, subject)

    def _take_index_comment(self, tree: Tree, statement: Tree) -> None:
        names = texts(statement.object.list.items)
        if statement.objtype == _OBJECT.OBJECT_INDEX:
            subject = Subject("pg_class", names[0], names[1])
            if tuple(names) in self._made:
                self._add_step("property", subject, self._remap(tree, subject))
            elif tuple(names) in self._made_late:
                self._add_step("view", subject, self._remap(tree, subject))
        else:
            self.plan.left_out += left_out_comment(statement)

    def _take_alter(self, tree: Tree, statement: Tree, subject: Subject) -> None:
        command = statement.cmds[0].alter_table_cmd
        if statement.objtype == _OBJECT.OBJECT_INDEX:
            self._take_alter_index(tree, command, subject)
        elif (subject.schema, subject.name) not in self._tables:
            return
        elif command.subtype == _AT.AT_AddConstraint:
            self._take_constraint(tree, _definition(command).constraint, subject)
        elif command.subtype in (_AT.AT_ReplicaIdentity, _AT.AT_ClusterOn):
            identity = _definition(command).replica_identity_stmt.name or command.name
            if (subject.schema, identity) in self._made:
                self._add_step("property", subject, self._remap(tree, subject))
        else:
            self._add_step("property", subject, self._remap(tree, subject))

    def _take_alter_index(self, tree: Tree, command: Tree, subject: Subject) -> None:
        if (subject.schema, subject.name) not in self._made:
            return
        if command.subtype == _AT.AT_AttachPartition:
            child = _definition(command).partition_cmd.name
            if (child.schemaname, child.relname) not in self._made:
                return
            self._add_step("attach", subject, self._remap(tree, subject))
        else:
            self._add_step("property", subject, self._remap(tree, subject))

    def _take_constraint(self, tree: Tree, constraint: Tree, subject: Subject) -> None:
        if constraint.contype == _CON.CONSTR_FOREIGN:
            self._take_foreign_key(tree, constraint, subject)
            return
        self._made.add((subject.schema, constraint.conname))
        phase: Phase = "key" if constraint.contype in _INDEX_CONSTRAINTS else "property"
        self._add_step(phase, subject, self._remap(tree, subject))

    def _take_foreign_key(self, tree: Tree, constraint: Tree, subject: Subject) -> None:
        target = (constraint.pktable.schemaname, constraint.pktable.relname)
        if target not in self._tables:
            self.plan.left_out.append(
                LeftOut(
                    "foreign key",
                    f"{constraint.conname} of {subject}",
                    f"{'.'.join(target)} is not replicated",
                )
            )
            return
        self._foreign_keys.add((subject.schema, constraint.conname))
        ends = (self._tables[subject.schema, subject.name], self._tables[target])
        if constraint.skip_validation:
            # Not valid on the source either.
            self._add_step("foreign_key", subject, self._remap(tree, subject))
            return
        if any(table.is_partitioned for table in ends):
            # Of a partitioned table it cannot be NOT VALID; to one, VALIDATE skips partitions.
            self._add_step("valid_foreign_key", subject, self._remap(tree, subject))
            return
        constraint.skip_validation = True
        constraint.initially_valid = False
        self._add_step("foreign_key", subject, self._remap(tree, subject))
        schema = self._names.target_schema(subject.schema)
        validate = SQL("alter table {} validate constraint {}").format(
            Identifier(schema, subject.name), Identifier(constraint.conname)
        )
        self._add_step("validate", subject, validate.as_string())


def _unknown(kind: str) -> UnknownStatementError:
    return UnknownStatementError(f"pgrepl does not know a statement of the source's schema: {kind}")


def _definition(command: Tree) -> Tree:
    # The field is called "def", which is a word of Python.
    return getattr(command, "def")
