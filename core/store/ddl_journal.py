"""The rows of ``replication.ddl_history`` and ``replication.ddl_pending``.

What became of captured statements, and what people decided about those that stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row

from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.encodings import fit_text

__all__ = [
    "CapturedStatement",
    "Decision",
    "DecisionKind",
    "Outcome",
    "PendingDdl",
    "add_history",
    "add_pending",
    "prune_ddl_history",
    "read_known",
    "read_pending",
    "remove_pending",
    "set_decision",
]

Outcome = Literal["applied", "skipped", "edited", "discarded"]
"""What became of a statement; only replay sets it.

``applied``: as it ran on the source, its schemas renamed. ``skipped``: by a rule, as the reason
says. ``edited``: as a person wrote it. ``discarded``: a person decided to skip it.
"""

DecisionKind = Literal["retry", "edit", "skip"]
"""What a person decided about a statement that stopped: ``pgrepl ddl`` sets it, replay clears it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedStatement:
    """What both tables say of a captured statement."""

    source_id: int
    #: Its number in the source's ``pgrepl.ddl_log``.
    log_id: int
    commit_lsn: Lsn
    #: As the output plugin printed it.
    commit_at: str
    tag: str
    role: str


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
    commit_at: datetime
    stopped_at: datetime
    tag: str
    role: str
    original: str | None
    remapped: str | None
    error: str
    decision: DecisionKind | None
    edited: str | None
    decided_by: str | None


def add_history(
    connection: Connection,
    statement: CapturedStatement,
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
            *_place(statement),
            outcome,
            _fit(connection, reason),
            statement.tag,
            fit_text(connection, statement.role),
            decided_by,
            _fit(connection, original),
            _fit(connection, remapped),
        ),
    )


def read_known(connection: Connection, source_id: int, log_ids: Collection[int]) -> frozenset[int]:
    """Return those of some captured statements that were applied or skipped, or that wait."""
    rows = connection.execute(
        "select log_id from replication.ddl_history where source_id = %(source)s"
        " and log_id = any (%(ids)s::bigint[])"
        " union select log_id from replication.ddl_pending where source_id = %(source)s"
        " and log_id = any (%(ids)s::bigint[])",
        {"source": source_id, "ids": list(log_ids)},
    )
    return frozenset(log_id for (log_id,) in rows)


def prune_ddl_history(connection: Connection, source_id: int, horizon: datetime) -> int:
    """Remove what is older than the horizon, and return how many rows."""
    return connection.execute(
        "delete from replication.ddl_history where source_id = %s and at < %s",
        (source_id, horizon),
    ).rowcount


def add_pending(
    connection: Connection,
    statement: CapturedStatement,
    *,
    original: str | None,
    remapped: str | None,
    error: str,
) -> None:
    """Keep a statement that stopped; a decision that led here again is used up."""
    connection.execute(
        "insert into replication.ddl_pending (source_id, log_id, commit_lsn, commit_at, tag, role,"
        " original, remapped, error)"
        " values (%s, %s, %s, %s::timestamptz, %s, %s, %s, %s, %s)"
        " on conflict (source_id, log_id) do update set stopped_at = clock_timestamp(),"
        " original = excluded.original, remapped = excluded.remapped, error = excluded.error,"
        " decision = null, edited = null, decided_by = null, decided_at = null",
        (
            *_place(statement),
            statement.tag,
            *(_fit(connection, text) for text in (statement.role, original, remapped, error)),
        ),
    )


def _fit(connection: Connection, text: str | None) -> str | None:
    return None if text is None else fit_text(connection, text)


def remove_pending(connection: Connection, source_id: int, log_id: int) -> None:
    """Forget a statement that waited, in the transaction that applies it."""
    connection.execute(
        "delete from replication.ddl_pending where source_id = %s and log_id = %s",
        (source_id, log_id),
    )


def read_pending(connection: Connection, source: str | None = None) -> Sequence[PendingDdl]:
    """Return what waits, in the order of the stream."""
    with connection.cursor(row_factory=class_row(PendingDdl)) as cursor:
        return cursor.execute(
            "select s.name as source, p.log_id, p.commit_lsn, p.commit_at,"
            " p.stopped_at, p.tag, p.role, p.original, p.remapped, p.error, p.decision,"
            " p.edited, p.decided_by from replication.ddl_pending p"
            " join replication.source s using (source_id)"
            " where s.name = coalesce(%s, s.name) order by s.name, p.commit_lsn, p.log_id",
            (source,),
        ).fetchall()


def set_decision(
    connection: Connection, source: str, log_id: int, kind: DecisionKind, edited: str | None
) -> None:
    """Record what the session's user decided about a statement that waits."""
    connection.execute(
        "update replication.ddl_pending p set decision = %s, edited = %s,"
        " decided_by = session_user, decided_at = clock_timestamp()"
        " from replication.source s where s.source_id = p.source_id and s.name = %s"
        " and p.log_id = %s",
        (kind, edited, source, log_id),
    )


def _place(statement: CapturedStatement) -> tuple[int, int, Lsn, str]:
    return statement.source_id, statement.log_id, statement.commit_lsn, statement.commit_at
