"""Apply one captured command: find it, judge it, rename it, run it, compare, write it down."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

import psycopg

from pgrepl.ddl_capture.apply.execution import Execution
from pgrepl.ddl_capture.apply.forgetting import forget_tables, forget_views
from pgrepl.ddl_capture.apply.identity import note_lacking_identity
from pgrepl.ddl_capture.apply.named_schemas import filled_schemas, named_schemas
from pgrepl.ddl_capture.apply.parking import ParkedError
from pgrepl.ddl_capture.apply.scope import Scope
from pgrepl.ddl_capture.apply.statement.adapt import (
    drop_left,
    keep_elements,
    make_create_as,
    remove_foreign_keys,
    rewrite_drop,
    set_bounds,
    split_sequence,
)
from pgrepl.ddl_capture.apply.statement.concerned import Concern, find_concern
from pgrepl.ddl_capture.apply.statement.grants import split_grant
from pgrepl.ddl_capture.apply.statement.object_kind import correct_kind
from pgrepl.ddl_capture.apply.statement.omit import omit_columns
from pgrepl.ddl_capture.apply.statement.subject import qualify
from pgrepl.ddl_capture.apply.structure.compare import Comparison, DifferentError
from pgrepl.ddl_capture.apply.structure.create_as import copied_relations, create_filled
from pgrepl.ddl_capture.apply.structure.create_table import create_table
from pgrepl.ddl_capture.apply.structure.differences import mapped_name
from pgrepl.ddl_capture.apply.target_session import Environment
from pgrepl.ddl_capture.apply.unproven_rows import UnprovenRows
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.decode.event import CapturedEvent, DroppedObject, Rewrite
from pgrepl.ddl_capture.decode.filled import FILLED
from pgrepl.ddl_capture.decode.statement import UnknownStatementError, find_statement
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.journal import captured_statement
from pgrepl.ddl_capture.policy.missing_objects import is_needless
from pgrepl.ddl_capture.policy.rows_may_differ import leaves_rows
from pgrepl.ddl_capture.policy.rules import Included, RefusedError, refine, skip_reason
from pgrepl.ddl_capture.policy.screening import Screening
from pgrepl.ddl_capture.policy.skipped import forget_dropped, rename_skipped
from pgrepl.failpoint import reach
from pgrepl.postgres.sqlstate import is_transient, reason
from pgrepl.store.ddl_journal import Outcome, add_history
from pgrepl.syntax.parse import SqlSyntaxError, Tree
from pgrepl.syntax.remap import RemapError, remap
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["Application"]


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
    #: Structures of tables after it, as the target is to have them.
    tables: Sequence[TableDefinition]
    #: Why columns that rules omit cannot be omitted after it.
    needed_columns: Sequence[str] = ()
    #: The statement as it ran, and as it runs here, as soon as they are known.
    original: str | None = None
    remapped: str | None = None
    _execution: Execution = field(init=False)
    _scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        """Prepare; nothing runs yet."""
        self._scope = Scope(self.target, self.event, self.tables)
        screening = Screening(self.target, self.tables, is_trusted=self.include.is_code_trusted)
        self._execution = Execution(self.target, self.include, screening, self.rewrites)

    def run(self) -> None:
        """Apply the command, or leave it out by a rule."""
        if self.event.kind == "start" and self.event.tag not in FILLED:
            return
        if self.event.kind == "end" and self.event.tag in FILLED:
            # It was made at its start, and its rows have come since.
            self._learn_names(None)
            self._compare()
            return
        try:
            found = find_statement(self.event)
        except (UnknownStatementError, SqlSyntaxError) as exc:
            self._learn_names(None)
            self._reach(None, exc)
            return
        self.original = found.text
        tree = correct_kind(make_create_as(found.tree), self.event)
        self._learn_names(tree)
        tables = [table.key for table in self.tables]
        # A resync copies rows: an index, a comment or an option comes by its statement.
        is_in_copy = not leaves_rows(tree) and bool(tables) and self.target.is_in_copy(tables)
        if is_in_copy and self._comparison().is_equal(self._scope.replicated()):
            self._record("skipped", "the copy of the table was made after it")
            return
        self._run_text(tree)
        if is_in_copy:
            # What it did to rows that the copy has as they were afterwards, nobody knows.
            for table in self._scope.replicated():
                key = mapped_name(table, self.target.names)
                self.target.mark(key, f"its copy was made after {self.event.tag}, applied later")

    def _run_text(self, tree: Tree) -> None:
        """Apply the command by its text, or reach what it left on the source."""
        try:
            left_out_by = self._try_without_breaking(tree)
        except psycopg.Error as exc:
            if is_transient(exc):
                raise
            self._reach(tree, exc)
        except ParkedError:
            raise
        except (RefusedError, RemapError, SqlSyntaxError, UnknownStatementError) as exc:
            self._reach(tree, exc)
        else:
            self._check_identity()
            is_skipped = left_out_by is not None or self.remapped is None
            self._record("skipped" if is_skipped else "applied", left_out_by)

    def _try_without_breaking(self, tree: Tree) -> str | None:
        """Try the text, if need be without rows that need not be the source's."""
        unproven = UnprovenRows(self.target, self.event.tag)
        while True:
            # What the rules take out of it is not taken out of what is looked at afterwards.
            given = type(tree).FromString(tree.SerializeToString())
            try:
                with self.target.connection.transaction():
                    return self._try_text(given)
            except psycopg.IntegrityError as exc:
                self._forget_try(tree)
                if not unproven.remove_breaking(exc):
                    raise

    def _forget_try(self, tree: Tree | None) -> None:
        """Forget what was made for the text: it was rolled back."""
        self._execution.forget()
        self._learn_names(tree)

    def _try_text(self, tree: Tree) -> str | None:
        """Run the statement and compare; return why it is skipped, if it is."""
        reason = skip_reason(tree, self.include) or refine(tree, self.include)
        forget_dropped(self.target.connection, self.target.source_id, self.dropped)
        forget_views(self.target, self.dropped)
        reason = reason or self._scope.reason_to_leave_out(tree)
        built = [] if reason else self._build(tree)
        statements = [] if reason or built else self._adapt(tree)
        if not statements and not built:
            self._leave_out()
            is_any_left = self._drop_left()
            return None if is_any_left else reason or "nothing of it was replicated before"
        if built:
            self._execute_built(built)
        else:
            self._execute(statements)
            schema = next((item.schema for item in self.event.objects if item.schema), None)
            rename_skipped(self.target.connection, self.target.source_id, tree, schema)
            self._drop_left()
        self._compare()
        return None

    def _reach(self, tree: Tree | None, error: Exception) -> None:
        """Do without the text: what it left on the source is known for each of its tables."""
        self._forget_try(tree)
        told = reason(error) if isinstance(error, psycopg.Error) else str(error)
        if is_needless(tree, error):
            self._record("skipped", f"it needs what the target has not: {told}")
            return
        if not self._scope.is_reachable(tree):
            raise error
        self.target.notes.append(f"the text was not run: {told}")
        forget_dropped(self.target.connection, self.target.source_id, self.dropped)
        try:
            self._comparison().run(self._scope.replicated())
        except DifferentError as exc:
            raise DifferentError(f"{told}; without it {exc}") from error
        except psycopg.Error as exc:
            # The first one tells more.
            raise exc if is_transient(exc) else error from exc
        except ParkedError:
            raise
        except (RefusedError, RemapError, SqlSyntaxError) as exc:
            raise error from exc
        for table in self._scope.replicated():
            if any((item.schema, item.name) == table.key for item in self.rewrites):
                key = mapped_name(table, self.target.names)
                self.target.mark(key, f"{self.event.tag} rewrote it, and its text was not run")
        self.remapped = self._execution.text
        self._check_identity()
        self._record("applied")

    def run_edited(self, edited: str, decided_by: str | None) -> None:
        """Run what a person wrote instead."""
        self._learn_names(None)
        self.remapped = edited
        self.target.watch(partial(self.target.run_sql, edited))
        self._record("edited", decided_by=decided_by)

    def pass_over(self) -> bool:
        """Skip it, if that is the rule for its kind whatever it is about; False: it is not."""
        tree = self._find_tree()
        if tree is None or self.event.kind != "end" or self.dropped:
            return False
        try:
            reason = skip_reason(tree, self.include) or refine(tree, self.include)
        except RefusedError:
            return False
        if reason is not None:
            self.skip(reason)
        return reason is not None

    def skip(self, reason: str) -> None:
        """Skip it, for a reason that may be none of its own."""
        self.original = self.event.query
        self._record("skipped", reason)

    def _find_tree(self) -> Tree | None:
        try:
            return find_statement(self.event).tree
        except (UnknownStatementError, SqlSyntaxError):
            return None

    def selected(self) -> Sequence[TableDefinition]:
        """Return its tables that are replicated, or will be."""
        return [table for table in self.tables if self._scope.is_selected(table)]

    def names_before(self) -> Collection[TableName]:
        """Return what tables may have been called that it gives another name or schema."""
        tree = self._find_tree()
        return () if tree is None else self._scope.names_before(tree)

    def leave_alone(self, keys: Collection[TableName]) -> None:
        """Do without some of its tables, which are taken care of elsewhere."""
        self.tables = [table for table in self.tables if table.key not in keys]
        self.__post_init__()

    def concern(self) -> Concern:
        """Return which tables it is about, for those who have to wait with it."""
        tree = self._find_tree()
        known = self.target.known_tables()
        return find_concern(self.event, tree, self.selected(), self.dropped, known)

    def _learn_names(self, tree: Tree | None) -> None:
        schemas = named_schemas(self.event, self.tables, tree)
        # A partition goes with its root, whatever schema it is in.
        followed = {table.schema for table in self.selected()}
        self.target.learn_names(schemas, followed)
        place = None if tree is None else self._scope.destination(tree)
        if place is not None and place not in self.target.names.schemas:
            self.target.learn_names(schemas, {*followed, place})

    # What is to be done.

    def _build(self, tree: Tree) -> list[str]:
        """Make statements of the structure where the text would need what is not replicated."""
        _, statement = statement_of(tree)
        if self.event.kind == "start":
            return create_filled(statement, self._scope.replicated()[0], self.target.names)
        likes = copied_relations(tree)
        if all(self.target.find_schema(schema, name) for schema, name in likes):
            return []
        made = [t for t in self._scope.replicated() if t.name == statement.relation.relname]
        return [create_table(made[0], self.target.names)] if made else []

    def _adapt(self, tree: Tree) -> list[Tree]:
        kind, _ = statement_of(tree)
        if kind in ("DropStmt", "DropOwnedStmt"):
            return rewrite_drop(tree, self.dropped, self.target.names.schemas)
        if kind == "GrantStmt":
            role = self.target.connection.info.user
            is_left = self._omit_columns(tree)
            return split_grant(tree, self.target.find_schema, role) if is_left else []
        qualify(tree, self.event)
        keep_elements(tree, {table.name for table in self.selected()})
        set_bounds(tree, self.tables)
        is_left = (
            self._omit_columns(tree)
            # It becomes a replicated one by this; the comparison makes it.
            and not self._scope.is_absent(tree)
            and remove_foreign_keys(tree, self.tables, self._scope.is_replicated)
            and self._execution.screening.remove_unnamed(tree)
        )
        return split_sequence(tree) if is_left else []

    def _omit_columns(self, tree: Tree) -> bool:
        """Take out columns that rules omit; False: nothing is left."""
        found = omit_columns(tree, self.target.source.rules, self.event.path, self.tables)
        self.target.notes += filter(None, [found.note])
        # Whatever compares drops these.
        self.dropped = (*self.dropped, *found.dropped)
        return found.is_left

    # Doing it.

    def _execute(self, statements: Sequence[Tree]) -> None:
        text = self.original if len(statements) == 1 else None
        renamed = [remap(tree, self.target.names, text) for tree in statements]
        for what in (what for item in renamed for what in item.opaque):
            # A text constant is data. Code that names a schema would run with the wrong one.
            if what != "text constant":
                raise RefusedError(f"its {what} names a schema, which cannot be renamed there")
        self._prepare([item.sql for item in renamed], self.target.environment())
        self._make_schemas(statements)
        self._execution.run()

    def _drop_left(self) -> bool:
        """Drop tables that depended on the source on what the target has not."""
        there = {(item.schema, item.name) for item in self.target.relations()}
        drop = drop_left(self.dropped, self.target.names.schemas, there)
        if drop is None:
            return False
        sql = remap(drop, self.target.names).sql
        self.target.watch(partial(self._execution.run_text, sql))
        self.remapped = self._execution.text
        return True

    def _execute_built(self, statements: Sequence[str]) -> None:
        self._prepare(statements)
        for schema in {table.schema for table in self._scope.replicated()} - set(self.target.known):
            self.target.make_schema(schema)
        self._execution.run()

    def _prepare(self, statements: Sequence[str], environment: Environment | None = None) -> None:
        """Have code taken out of the statements before anything of them is kept or run."""
        self._execution.prepare(statements, environment)
        self.remapped = self._execution.text

    def _make_schemas(self, statements: Sequence[Tree]) -> None:
        """Make the schemas that the statement puts something into for the first time."""
        for schema in filled_schemas(self.event, statements):
            if schema not in self.target.known and schema in self.target.names.schemas:
                self.target.make_schema(schema)

    # Afterwards.

    def _comparison(self) -> Comparison:
        return Comparison(self.target, self.event.tag, self._execution, self.dropped)

    def _compare(self) -> None:
        self._comparison().run(self._scope.replicated())

    def _check_identity(self) -> None:
        note_lacking_identity(self.target, self.selected())

    def _leave_out(self) -> None:
        for table in self.tables:
            # It was replicated until now, and its changes are not in the WAL any more.
            if table.persistence != "p" and table.schema in self.target.names.schemas:
                key = mapped_name(table, self.target.names)
                self.target.mark(key, "it became unlogged", is_due=False)
        self._compare()

    def _note_oids(self) -> None:
        """Write down which relations the tables are, for those who look for them by their names."""
        for table in self._scope.replicated():
            if table.oid is not None:
                self.target.note_oid(table.key, table.oid)

    def _record(
        self,
        outcome: Outcome,
        reason: str | None = None,
        *,
        decided_by: str | None = None,
    ) -> None:
        self._note_oids()
        forget_tables(self.target, self.dropped)
        notes = dict.fromkeys(filter(None, [reason, *self.target.notes]))
        add_history(
            self.target.connection,
            captured_statement(self.target.captured, self.event),
            outcome,
            reason="; ".join(notes) or None,
            original=self.original,
            remapped=self.remapped,
            decided_by=decided_by,
        )
        reach("ddl.recorded")
