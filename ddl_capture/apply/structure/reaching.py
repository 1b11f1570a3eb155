"""Run the statements that reach a structure, and mind what they do to rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from pgrepl.ddl_capture.apply.execution import Execution
from pgrepl.ddl_capture.apply.structure.reconcile_step import Needless, Step
from pgrepl.ddl_capture.apply.unproven_rows import UnprovenRows
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.postgres.sqlstate import reason
from pgrepl.store.skipped_code import SkippedCode, record_skipped

__all__ = ["StepRunner"]

#: How SQLSTATEs begin by which PostgreSQL says that something cannot be made here at all: what it
#: names is missing, it is not supported, or has characters that the encoding does not have.
_IMPOSSIBLE = ("0A", "22P05", "42")


@dataclass(frozen=True, slots=True)
class StepRunner:
    """Runs steps for one table."""

    target: Workspace
    execution: Execution
    #: The table on the target, and as the source reported it.
    key: TableName
    table: TableDefinition
    tag: str

    def run(self, steps: Sequence[Step]) -> None:
        """Run them in order.

        What a copy can do without and PostgreSQL refuses is skipped and written down. Rows that
        would need values, or need not be the source's and are in the way, are removed.
        """
        unproven = UnprovenRows(self.target, self.tag)
        for step in steps:
            self._run(step, unproven)

    def _run(self, step: Step, unproven: UnprovenRows) -> None:
        has_rows = step.is_void and self.target.has_rows(self.key)
        try:
            self._run_without_breaking(step, unproven)
        except psycopg.IntegrityError as exc:
            if step.needless is not None and step.needless.kind == "foreign key":
                if not unproven.have_copied(self._referring()):
                    raise
                # The rows that it refers to come with the next copy.
                self._skip(step.needless, reason(exc))
                return
            if not has_rows:
                raise
            self.target.empty(self.key)
            self.execution.run_text(step.sql)
        except (psycopg.Error, RefusedError) as exc:
            if step.needless is None or not _is_impossible(exc):
                raise
            self._skip(step.needless, _told(exc))
            return
        if has_rows:
            self.target.mark(self.key, f"{self.tag} gave its rows other values", is_void=True)

    def _run_without_breaking(self, step: Step, unproven: UnprovenRows) -> None:
        """Run it, if need be without rows that need not be the source's."""
        while True:
            try:
                with self.target.connection.transaction():
                    self.execution.run_text(step.sql)
            except psycopg.IntegrityError as exc:
                if not unproven.remove_breaking(exc, self.key):
                    raise
            else:
                return

    def _referring(self) -> list[TableName]:
        """Return the table and those that its foreign keys refer to, on the target."""
        schemas = self.target.names.schemas
        references = [item.references for item in self.table.constraints if item.references]
        return [self.key, *((schemas[key[0]], key[1]) for key in references if key[0] in schemas)]

    def _skip(self, needless: Needless, why: str) -> None:
        schema, name = self.table.key
        code = SkippedCode(
            kind=needless.kind,
            schema_name=schema,
            table_name=name,
            name=needless.name,
            definition=needless.definition,
            reason=f"PostgreSQL refuses it on the target: {why}",
        )
        record_skipped(self.target.connection, self.target.source_id, [code])
        self.target.notes.append(f"skipped {code.kind} {code.shown}: {code.reason}")


def _is_impossible(exc: psycopg.Error | RefusedError) -> bool:
    return isinstance(exc, RefusedError) or (exc.sqlstate or "").startswith(_IMPOSSIBLE)


def _told(exc: psycopg.Error | RefusedError) -> str:
    return str(exc) if isinstance(exc, RefusedError) else reason(exc)
