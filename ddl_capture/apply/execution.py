"""Run the statements of a command on the target, screened and confined, and mind the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import psycopg
from postgast import pg_query_pb2

from pgrepl.ddl_capture.apply.statement.adapt import check_bounds, has_cascade
from pgrepl.ddl_capture.apply.target_catalog import read_functions
from pgrepl.ddl_capture.apply.target_session import Environment
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.decode.event import Rewrite
from pgrepl.ddl_capture.definition import TableName
from pgrepl.ddl_capture.policy.functions import called_functions, check_functions, reachable
from pgrepl.ddl_capture.policy.missing_objects import FORGIVEN, is_forgiving
from pgrepl.ddl_capture.policy.rows_may_differ import reason_to_resync
from pgrepl.ddl_capture.policy.rules import Included, RefusedError, refine, skip_reason
from pgrepl.ddl_capture.policy.screening import Screened, Screening
from pgrepl.syntax.parse import Tree, parse_one, to_sql
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["Execution"]

_OBJECT = pg_query_pb2.ObjectType


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A statement with the target's names, without what may not be made there."""

    tree: Tree
    sql: str
    screened: Screened
    environment: Environment


@dataclass(slots=True)
class Execution:
    """The statements of one command."""

    target: Workspace
    include: Included
    screening: Screening
    rewrites: Sequence[Rewrite]
    _prepared: list[_Prepared] = field(default_factory=list)

    def prepare(self, statements: Sequence[str], environment: Environment | None = None) -> None:
        """Take statements with the target's names, and out of them what must not be made.

        Without an environment they are made of the structure that the source reported.
        """
        environment = environment or Environment(self.target.search_path)
        for sql in statements:
            tree = parse_one(sql)
            self._check_kind(tree)
            screened = self.screening.screen(tree, environment)
            if screened.is_left:
                printed = to_sql(tree) if screened.is_changed else sql
                self._prepared.append(_Prepared(tree, printed, screened, environment))

    def _check_kind(self, tree: Tree) -> None:
        """Refuse what the rules do not apply, whoever made it: it may be of the source's texts."""
        copy = type(tree).FromString(tree.SerializeToString())
        reason = skip_reason(copy, self.include) or refine(copy, self.include)
        if reason is not None:
            raise RefusedError(reason)
        if not self.include.is_code_trusted:
            check_bounds(tree)

    @property
    def text(self) -> str | None:
        """What runs, or ran; None: nothing."""
        return ";\n".join(item.sql for item in self._prepared) or None

    def forget(self) -> None:
        """Forget what was prepared: it was rolled back."""
        self._prepared.clear()

    def run(self) -> None:
        """Run what was prepared, in order."""
        for item in self._prepared:
            self.target.watch(partial(self._run, item))

    def run_text(self, sql: str) -> None:
        """Run one statement by the same rules, without watching it."""
        first = len(self._prepared)
        self.prepare([sql])
        try:
            for item in self._prepared[first:]:
                self._run(item)
        except BaseException:
            del self._prepared[first:]
            raise

    def _run(self, item: _Prepared) -> None:
        self._check(item.screened.rest)
        self._note_resync(item)
        outside = self.target.outside_dependents() if has_cascade(item.tree) else frozenset()
        if item.screened.void is not None:
            self._run_void(item, item.screened.void)
        elif is_forgiving(item.tree):
            try:
                with self.target.connection.transaction():
                    self.target.run_sql(item.sql, item.tree, item.environment)
            except FORGIVEN:
                self.target.notes.append("what it is about is not on the target")
        else:
            self.target.run_sql(item.sql, item.tree, item.environment)
        lost = outside - self.target.outside_dependents() if outside else frozenset()
        if lost:
            raise RefusedError(
                f"CASCADE would drop what is not the source's: {', '.join(sorted(lost)[:5])}"
            )

    def _check(self, tree: Tree) -> None:
        """Refuse calls where no code is looked for: views, and what the screening trusts."""
        functions = reachable(
            tree,
            read_functions(self.target.connection, (name for _, name in called_functions(tree))),
            self.target.search_path,
        )
        check_functions(
            tree,
            functions,
            set(self.target.names.schemas.values()),
            is_own_code_foreign=not self.include.is_code_trusted or "functions" in self.include,
        )

    def _run_void(self, item: _Prepared, reason: str) -> None:
        """Run a statement that leaves rows without their values, and have the table copied.

        Where a row must have a value, there are no rows until then.
        """
        key = _altered(item.tree)
        has_rows = self.target.has_rows(key)
        try:
            with self.target.connection.transaction():
                self.target.run_sql(item.sql, item.tree, item.environment)
        except psycopg.IntegrityError:
            self.target.empty(key)
            self.target.run_sql(item.sql, item.tree, item.environment)
        if has_rows:
            self.target.mark(key, reason, is_void=True)

    def _note_resync(self, item: _Prepared) -> None:
        kind, statement = statement_of(item.tree)
        if kind != "AlterTableStmt" or statement.objtype != _OBJECT.OBJECT_TABLE:
            return
        key = _altered(item.tree)
        if key not in {(item.schema, item.name) for item in self.target.relations()}:
            return
        reason = reason_to_resync(item.tree, self.rewrites) or item.screened.unsure
        is_persistence = any(rewrite.is_persistence for rewrite in self.rewrites)
        if reason is not None and (is_persistence or self.target.has_rows(key)):
            self.target.mark(key, reason)


def _altered(tree: Tree) -> TableName:
    relation = tree.alter_table_stmt.relation
    return relation.schemaname, relation.relname
