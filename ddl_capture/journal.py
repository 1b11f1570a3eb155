"""What became of captured DDL, and what people decided about it: two tables on the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg.rows import class_row

from pgrepl.ddl import CapturedDdl
from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.errors import DdlStopped, UsageError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection

__all__ = [
    "Decision",
    "DecisionKind",
    "Outcome",
    "PendingDdl",
    "StatementStopped",
    "decide",
    "find_decision",
    "find_waiting",
    "read_pending",
    "record_history",
    "record_pending",
    "settle",
]

Outcome = Literal["applied", "skipped", "edited", "discarded"]
DecisionKind = Literal["retry", "edit", "skip"]


class StatementStopped(DdlStopped):
    """Captured DDL that cannot be applied, with the statement as it ran and as it would run."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        original: str | None = None,
        remapped: str | None = None,
    ) -> None:
        """Keep the statements apart from the message: they are for the target's tables."""
        super().__init__(message, hint=hint)
        self.original = original
        self.remapped = remapped


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided about a statement."""

    kind: DecisionKind
    edited: str | None
    decided_by: str | None


@dataclass(frozen=True, slots=True)
class PendingDdl:
    """A statement that waits for a person, or for the replayer to come by again."""

    source: str
    log_id: int
    commit_lsn: Lsn
    commit_at: str
    stopped_at: str
    tag: str
    role: str
    original: str | None
    remapped: str | None
    error: str
    decision: DecisionKind | None
    edited: str | None
    decided_by: str | None


def find_decision(connection: Connection, source_id: int, log_id: int) -> Decision | None:
    """Return what was decided about an event."""
    with connection.cursor(row_factory=class_row(Decision)) as cursor:
        return cursor.execute(
            "select decision as kind, edited, decided_by from replication.ddl_pending"
            " where source_id = %s and log_id = %s and decision is not null",
            (source_id, log_id),
        ).fetchone()


def settle(connection: Connection, source_id: int, log_id: int) -> None:
    """Forget a statement that waited, in the transaction that applies it."""
    connection.execute(
        "delete from replication.ddl_pending where source_id = %s and log_id = %s",
        (source_id, log_id),
    )


def record_history(
    connection: Connection,
    captured: CapturedDdl,
    event: CapturedEvent,
    outcome: Outcome,
    *,
    reason: str | None = None,
    original: str | None = None,
    remapped: str | None = None,
    decided_by: str | None = None,
) -> None:
    """Write down what became of a statement."""
    connection.execute(
        "insert into replication.ddl_history (source_id, log_id, commit_lsn, commit_at, outcome,"
        " reason, tag, role, decided_by, original, remapped)"
        " values (%s, %s, %s, %s::timestamptz, %s, %s, %s, %s, %s, %s, %s)",
        (
            captured.source.source_id,
            event.log_id,
            captured.commit_lsn,
            captured.commit_at,
            outcome,
            reason,
            event.tag,
            event.invoker,
            decided_by,
            original,
            remapped,
        ),
    )


def record_pending(
    connection: Connection, captured: CapturedDdl, event: CapturedEvent, stopped: DdlStopped
) -> None:
    """Keep what stopped; a decision that led here again is used up."""
    connection.execute(
        "insert into replication.ddl_pending (source_id, log_id, commit_lsn, commit_at, tag, role,"
        " original, remapped, error)"
        " values (%s, %s, %s, %s::timestamptz, %s, %s, %s, %s, %s)"
        " on conflict (source_id, log_id) do update set stopped_at = clock_timestamp(),"
        " original = excluded.original, remapped = excluded.remapped, error = excluded.error,"
        " decision = null, edited = null, decided_by = null, decided_at = null",
        (
            captured.source.source_id,
            event.log_id,
            captured.commit_lsn,
            captured.commit_at,
            event.tag,
            event.invoker,
            getattr(stopped, "original", None) or event.query,
            getattr(stopped, "remapped", None),
            stopped.message,
        ),
    )


def read_pending(connection: Connection, source: str | None = None) -> Sequence[PendingDdl]:
    """Return what waits, in the order of the stream."""
    with connection.cursor(row_factory=class_row(PendingDdl)) as cursor:
        return cursor.execute(
            "select s.name as source, p.log_id, p.commit_lsn, p.commit_at::text,"
            " p.stopped_at::text, p.tag, p.role, p.original, p.remapped, p.error, p.decision,"
            " p.edited, p.decided_by from replication.ddl_pending p"
            " join replication.source s using (source_id)"
            " where s.name = coalesce(%s, s.name) order by s.name, p.commit_lsn, p.log_id",
            (source,),
        ).fetchall()


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
    connection.execute(
        "update replication.ddl_pending p set decision = %s, edited = %s,"
        " decided_by = session_user, decided_at = clock_timestamp()"
        " from replication.source s where s.source_id = p.source_id and s.name = %s"
        " and p.log_id = %s",
        (kind, edited, source, chosen.log_id),
    )
    return chosen
