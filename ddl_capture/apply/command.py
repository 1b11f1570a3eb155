"""Apply one captured command: find it, judge it, rename it, run it, compare, write it down."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from pgrepl.ddl_capture import journal
from pgrepl.ddl_capture.apply.adapt import (
    keep_elements,
    make_create_as,
    mentioned_schemas,
    remove_foreign_keys,
    rewrite_drop,
    set_bounds,
)
from pgrepl.ddl_capture.apply.compare import Comparison
from pgrepl.ddl_capture.apply.create_as import FILLED, copied_relations, create_filled
from pgrepl.ddl_capture.apply.create_table import create_table
from pgrepl.ddl_capture.apply.detach import DetachedPartition, find_detached
from pgrepl.ddl_capture.apply.execution import Execution
from pgrepl.ddl_capture.apply.grants import split_grant
from pgrepl.ddl_capture.apply.structure import mapped_name
from pgrepl.ddl_capture.apply.subject import altered_tables, qualify
from pgrepl.ddl_capture.apply.target_session import Environment
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.decode.event import CapturedEvent, DroppedObject, Rewrite
from pgrepl.ddl_capture.decode.statement import find_statement
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.policy.rules import Included, RefusedError, left_out, refine
from pgrepl.ddl_capture.policy.screening import Screening
from pgrepl.ddl_capture.policy.skipped import forget_dropped, rename_skipped
from pgrepl.failpoint import reach
from pgrepl.store.ddl_journal import Outcome
from pgrepl.store.resync_queue import read_due
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.remap import remap
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["Application"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Application:
    """One command on its way onto the target."""

    target: Workspace
    #: Kinds of objects besides tables that are to be applied.
    include: Included
    event: CapturedEvent
    #: What the command dropped and rewrote, from the events before its end.
    dropped: Sequence[DroppedObject]
    rewrites: Sequence[Rewrite]
    #: Structures of tables after it.
    tables: Sequence[TableDefinition]
    #: The statement as it ran, and as it runs here, as soon as they are known.
    original: str | None = None
    remapped: str | None = None
    _execution: Execution = field(init=False)

    def __post_init__(self) -> None:
        """Prepare; nothing runs yet."""
        screening = Screening(self.target, self.tables, is_trusted=self.include.is_code_trusted)
        self._execution = Execution(self.target, self.include, screening, self.rewrites)

    def run(self) -> None:
        """Apply the command, or leave it out by a rule."""
        if self.event.kind == "start" and self.event.tag not in FILLED:
            return
        if self.event.kind == "end" and self.event.tag in FILLED:
            # It was made at its start, and its rows have come since.
            self._learn_names(set())
            self._compare()
            return
        found = find_statement(self.event)
        self.original = found.text
        tree = make_create_as(found.tree)
        detached = find_detached(tree)
        reason = left_out(tree, self.include) or refine(tree, self.include)
        self._learn_names(mentioned_schemas(tree))
        is_in_copy = self._is_in_copy()
        if is_in_copy and self._comparison().is_equal(self._replicated()):
            self._record("skipped", "the copy of the table was made after it")
            return
        forget_dropped(self.target.connection, self.target.source_id, self.dropped)
        reason = reason or self._reason_to_leave_out(tree)
        built = [] if reason else self._build(tree)
        statements = [] if reason or built else self._adapt(tree)
        if not statements and not built:
            self._leave_out(reason or "nothing of it was replicated before")
            return
        if built:
            self._execute_built(built)
        else:
            self._execute(statements, detached)
            rename_skipped(self.target.connection, self.target.source_id, tree)
        self._compare()
        if is_in_copy:
            # A resync copies rows, and the structure came by this; what it did to rows that the
            # copy has as they were afterwards, nobody knows.
            for table in self._replicated():
                key = mapped_name(table, self.target.names)
                self.target.mark(key, f"its copy was made after {self.event.tag}, applied later")
        self._check_identity()
        self._record("skipped" if self.remapped is None else "applied")

    def run_edited(self, edited: str, decided_by: str | None) -> None:
        """Run what a person wrote instead."""
        self._learn_names(set())
        self.remapped = edited
        self.target.watch(partial(self.target.run_sql, edited))
        self._record("edited", decided_by=decided_by)

    def is_due(self) -> bool:
        """Whether a table of the command waits to be copied again: its rows prove nothing."""
        keys = {table.key for table in self.tables}
        # Of a foreign key the other table's rows have to be there.
        keys |= {
            constraint.references
            for table in self.tables
            for constraint in table.constraints
            if constraint.references
        }
        return any(
            table.key in keys for table in read_due(self.target.connection, self.target.source_id)
        )

    def _learn_names(self, mentioned: set[str]) -> None:
        schemas = set(self.event.path) | mentioned | {table.schema for table in self.tables}
        for item in self.event.objects:
            if item.schema is not None:
                schemas.add(item.schema)
            if item.type == "schema" and item.name:
                schemas.add(item.name)
        self.target.learn_names(schemas)

    # What is to be done.

    def _is_selected(self, table: TableDefinition) -> bool:
        return (
            self.target.source.selection.matches(*table.root)
            and table.persistence == "p"
            and not table.is_extension_member
        )

    def _is_in_copy(self) -> bool:
        return bool(self.tables) and self.target.is_in_copy(table.key for table in self.tables)

    def _reason_to_leave_out(self, tree: Tree) -> str | None:
        kind, statement = statement_of(tree)
        self._check_clashes()
        if self.event.kind == "start":
            return self._reason_not_to_fill(statement.into.rel)
        if kind in ("DropStmt", "DropOwnedStmt"):
            return None
        if self.tables:
            if any(map(self._is_selected, self.tables)) or self._leaves(tree):
                return None
            return "none of its tables is replicated"
        # Of privileges the source tells nothing.
        schemas = {item.schema or item.name for item in self.event.objects} - {None}
        if schemas and schemas.isdisjoint(self.target.names.schemas):
            return "its schema is not replicated"
        return None

    def _check_clashes(self) -> None:
        """Refuse to put anything into a schema of the target that is not the source's."""
        named = {item.schema or item.name for item in self.event.objects}
        for schema in named & set(self.target.clashes):
            raise RefusedError(
                f'schema "{self.target.clashes[schema or ""]}" exists on the target and is not'
                " this source's"
            )

    def _leaves(self, tree: Tree) -> bool:
        """Whether a replicated table gets a name that no pattern matches."""
        kind, _ = statement_of(tree)
        return kind in ("RenameStmt", "AlterObjectSchemaStmt") and any(
            self.target.is_replicated((place, name))
            for schema, name in altered_tables(tree)
            for place in ([schema] if schema else self.event.path)
        )

    def _reason_not_to_fill(self, relation: Tree) -> str | None:
        schema = relation.schemaname or next(iter(self.event.path), "")
        if relation.relpersistence != "p" or schema == "pg_temp":
            return "it is not a permanent table"
        if not self.target.source.selection.matches(schema, relation.relname):
            return "the patterns do not match it"
        return None if self._replicated() else "it made no table"

    def _build(self, tree: Tree) -> list[str]:
        """Make statements of the structure where the text would need what is not replicated."""
        _, statement = statement_of(tree)
        if self.event.kind == "start":
            return create_filled(statement, self._replicated()[0], self.target.names)
        likes = copied_relations(tree)
        if all(self.target.find_schema(schema, name) for schema, name in likes):
            return []
        made = [t for t in self._replicated() if t.name == statement.relation.relname]
        return create_table(made[0], self.target.names) if made else []

    def _adapt(self, tree: Tree) -> list[Tree]:
        kind, _ = statement_of(tree)
        if kind in ("DropStmt", "DropOwnedStmt"):
            return rewrite_drop(tree, self.dropped, self.target.names.schemas)
        if kind == "GrantStmt":
            return split_grant(tree, self.target.find_schema, self.target.connection.info.user)
        qualify(tree, self.event)
        keep_elements(tree, {t.name for t in self.tables if self._is_selected(t)})
        set_bounds(tree, self.tables)
        if self._is_absent(tree):
            # It becomes a replicated one by this; the comparison makes it.
            return []
        if not remove_foreign_keys(tree, self.tables, self._is_replicated):
            return []
        if not self._execution.screening.remove_unnamed(tree):
            return []
        return [tree]

    def _is_absent(self, tree: Tree) -> bool:
        """Whether a table that is to be altered was none of the replicated ones so far."""
        altered = altered_tables(tree)
        if not altered:
            return False
        there = {(relation.schema, relation.name) for relation in self.target.relations()}
        schemas = self.target.names.schemas
        path = [schemas[schema] for schema in self.event.path if schema in schemas]
        return not all(
            any((place, name) in there for place in ([schemas.get(schema)] if schema else path))
            for schema, name in altered
        )

    def _is_replicated(self, table: TableName) -> bool:
        return (
            self.target.source.selection.matches(*table) and table[0] in self.target.names.schemas
        )

    # Doing it.

    def _execute(self, statements: Sequence[Tree], detached: DetachedPartition | None) -> None:
        text = self.original if len(statements) == 1 else None
        renamed = [remap(tree, self.target.names, text) for tree in statements]
        for what in (what for item in renamed for what in item.opaque):
            # A text constant is data. Code that names a schema would run with the wrong one.
            if what != "text constant":
                raise RefusedError(f"its {what} names a schema, which cannot be renamed there")
        self._prepare([item.sql for item in renamed], self.target.environment())
        self._make_schemas(statements)
        constraint = None if detached is None else detached.read_constraint(self.target)
        self._execution.run()
        if detached is not None and constraint is not None:
            detached.add_constraint(self.target, constraint)

    def _execute_built(self, statements: Sequence[str]) -> None:
        self._prepare(statements)
        for schema in {table.schema for table in self._replicated()} - set(self.target.known):
            self.target.make_schema(schema)
        self._execution.run()

    def _prepare(self, statements: Sequence[str], environment: Environment | None = None) -> None:
        """Have code taken out of the statements before anything of them is kept or run."""
        self._execution.prepare(statements, environment)
        self.remapped = self._execution.text

    def _make_schemas(self, statements: Sequence[Tree]) -> None:
        """Make the schemas that the statement puts something into for the first time."""
        made = {
            statement.schemaname
            for kind, statement in map(statement_of, statements)
            if kind == "CreateSchemaStmt"
        }
        needed = {item.schema for item in self.event.objects if item.schema}
        for schema in sorted(needed - made - set(self.target.known)):
            if schema in self.target.names.schemas:
                self.target.make_schema(schema)

    # Afterwards.

    def _replicated(self) -> list[TableDefinition]:
        return [
            table
            for table in self.tables
            if self._is_selected(table) and table.schema in self.target.names.schemas
        ]

    def _comparison(self) -> Comparison:
        return Comparison(self.target, self.event.tag, self._execution)

    def _compare(self) -> None:
        self._comparison().run(self._replicated())

    def _check_identity(self) -> None:
        """Say of new tables whether their updates and deletes can be told."""
        for table in self.tables:
            if table.kind != "r" or not self._is_selected(table):
                continue
            if mapped_name(table, self.target.names) not in self.target.made:
                continue
            has_key = any(item.type == "p" for item in table.constraints)
            if table.replica_identity in ("f", "i") or (table.replica_identity == "d" and has_key):
                continue
            self.target.notes.append("the table has no replica identity: updates would be lost")
            logger.warning(
                "new table has no replica identity",
                extra={
                    "source": self.target.source.name,
                    "table": f"{table.schema}.{table.name}",
                },
            )

    def _leave_out(self, reason: str) -> None:
        for table in self.tables:
            # It was replicated until now, and its changes are not in the WAL any more.
            if table.persistence != "p" and table.schema in self.target.names.schemas:
                key = mapped_name(table, self.target.names)
                self.target.mark(key, "it became unlogged", is_due=False)
        self._compare()
        self._record("skipped", reason)

    def _record(
        self,
        outcome: Outcome,
        reason: str | None = None,
        *,
        decided_by: str | None = None,
    ) -> None:
        notes = dict.fromkeys(filter(None, [reason, *self.target.notes]))
        journal.record_history(
            self.target.connection,
            self.target.captured,
            self.event,
            outcome,
            reason="; ".join(notes) or None,
            original=self.original,
            remapped=self.remapped,
            decided_by=decided_by,
        )
        reach("ddl.recorded")
