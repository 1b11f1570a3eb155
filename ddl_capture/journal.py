"""What became of captured DDL, and what people decided about it."""

from __future__ import annotations

from pgrepl.ddl import CapturedDdl
from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.ddl_capture.definition import TableName
from pgrepl.errors import DdlStopped, UsageError
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.store.ddl_journal import (
    CapturedStatement,
    DecisionKind,
    PendingDdl,
    add_pending,
    read_pending,
    set_decision,
)

__all__ = ["StatementStopped", "captured_statement", "decide", "find_waiting", "record_pending"]


class StatementStopped(DdlStopped):
    """Captured DDL that cannot be applied, with the statement as it ran and as it would run."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        original: str | None = None,
        remapped: str | None = None,
        tables: frozenset[TableName] = frozenset(),
    ) -> None:
        """Keep the statements apart from the message: they are for the target's tables."""
        super().__init__(message, hint=hint)
        self.original = original
        self.remapped = remapped
        self.tables = tables


def record_pending(
    connection: Connection, captured: CapturedDdl, event: CapturedEvent, stopped: DdlStopped
) -> None:
    """Keep what stopped; a decision that led here again is used up."""
    add_pending(
        connection,
        captured_statement(captured, event),
        original=getattr(stopped, "original", None) or event.query,
        remapped=getattr(stopped, "remapped", None),
        error=stopped.message,
    )


def find_waiting(connection: Connection, source: str, log_id: int | None = None) -> PendingDdl:
    """Return the statement of this number, or the one that a source waits at.

    Raises
    ------
    UsageError
        when the source waits at none, or not at this one.

    """
    waiting = [
        item
        for item in read_pending(connection, source)
        if (item.decision is None if log_id is None else item.log_id == log_id)
    ]
    if not waiting:
        raise UsageError(
            f'source "{source}" waits at no DDL'
            if log_id is None
            else f'source "{source}" does not wait at number {log_id}',
            hint="pgrepl ddl pending shows what waits.",
        )
    return waiting[0]


def decide(
    connection: Connection,
    source: str,
    kind: DecisionKind,
    *,
    log_id: int | None = None,
    edited: str | None = None,
) -> PendingDdl:
    """Decide about a statement, and return it."""
    chosen = find_waiting(connection, source, log_id)
    set_decision(connection, source, chosen.log_id, kind, edited)
    reach("ddl.decided")
    return chosen


def captured_statement(captured: CapturedDdl, event: CapturedEvent) -> CapturedStatement:
    """Return a captured statement as the target's tables know it."""
    return CapturedStatement(
        source_id=captured.source.source_id,
        log_id=event.log_id,
        commit_lsn=captured.commit_lsn,
        commit_at=captured.commit_at,
        tag=event.tag,
        role=event.invoker,
    )
