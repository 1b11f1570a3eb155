"""How every source fared in the last days: ``replication.history``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from psycopg.rows import dict_row

from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection

__all__ = [
    "HISTORY_STEP",
    "KEPT",
    "LOOK_S",
    "Look",
    "Sight",
    "read_history",
    "record_looks",
    "resolution_of",
    "thin_out",
]

#: The migration that made the table.
HISTORY_STEP = "history"

#: The lengths of intervals, and how long each is kept.
KEPT = {
    timedelta(seconds=10): timedelta(hours=1),
    timedelta(minutes=1): timedelta(days=1),
    timedelta(minutes=10): timedelta(days=14),
}

#: So far apart looks are to be recorded, in seconds.
LOOK_S = 10.0

_RECORD = """
insert into replication.history as h
       (source_id, seconds, at, seen_at, is_reachable, is_receiving, lag_bytes, lag_seconds,
        held_bytes, spool_bytes, source_lsn, received_transactions, received_changes,
        applied_changes)
select s.source_id, i.seconds,
       date_bin(make_interval(secs => i.seconds), %(at)s, timestamptz '2000-01-01 00:00+00'),
       %(at)s,
       %(is_reachable)s, %(is_receiving)s, %(lag_bytes)s, %(lag_seconds)s, %(held_bytes)s,
       %(spool_bytes)s, %(source_lsn)s, %(received_transactions)s, %(received_changes)s,
       %(applied_changes)s
  from replication.source s, (values (10), (60), (600)) i (seconds)
 where s.source_id = %(source_id)s
    on conflict (source_id, seconds, at) do update
   set seen_at = excluded.seen_at,
       is_reachable = h.is_reachable and excluded.is_reachable,
       is_receiving = h.is_receiving and excluded.is_receiving,
       lag_bytes = greatest(h.lag_bytes, excluded.lag_bytes),
       lag_seconds = greatest(h.lag_seconds, excluded.lag_seconds),
       held_bytes = greatest(h.held_bytes, excluded.held_bytes),
       spool_bytes = greatest(h.spool_bytes, excluded.spool_bytes),
       source_lsn = coalesce(excluded.source_lsn, h.source_lsn),
       received_transactions = excluded.received_transactions,
       received_changes = excluded.received_changes,
       applied_changes = excluded.applied_changes
"""

# The interval before the first one is needed for its rates.
_READ = """
select s.name, h.source_id, h.seen_at as at, h.is_reachable, h.is_receiving, h.lag_bytes,
       h.lag_seconds,
       h.held_bytes, h.spool_bytes, h.source_lsn, h.received_transactions, h.received_changes,
       h.applied_changes
  from replication.history h
  join replication.source s using (source_id)
 where h.seconds = %(seconds)s and h.at >= now() - %(since)s - make_interval(secs => %(seconds)s)
   and (%(names)s::text[] is null or s.name = any (%(names)s))
 order by s.name, h.at
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """How a source was at a time, or at worst in an interval."""

    at: datetime
    is_reachable: bool
    is_receiving: bool
    #: Of the tables: what is applied. None: unknown.
    lag_bytes: int | None
    lag_seconds: float | None
    held_bytes: int | None
    spool_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(Sight):
    """What a look found of a source, or what an interval of looks adds up to."""

    source_id: int
    source_lsn: Lsn | None
    #: Counted since the copy.
    received_transactions: int
    received_changes: int
    applied_changes: int


def resolution_of(since: timedelta) -> timedelta:
    """Return the length of the intervals that are kept for a time; of the longest at most."""
    return next((length for length, kept in KEPT.items() if since <= kept), list(KEPT)[-1])


def record_looks(connection: Connection, looks: Sequence[Look]) -> None:
    """Write down looks; a source that was dropped meanwhile is skipped."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("set local synchronous_commit = off")
        cursor.executemany(_RECORD, [asdict(look) for look in looks])


def thin_out(connection: Connection) -> int:
    """Remove intervals that are kept no longer, and return how many."""
    count = 0
    for length, kept in KEPT.items():
        count += connection.execute(
            "delete from replication.history where seconds = %s and at < now() - %s",
            (int(length.total_seconds()), kept),
        ).rowcount
    return count


def read_history(
    connection: Connection, since: timedelta, names: Sequence[str] | None = None
) -> Mapping[str, Sequence[Look]]:
    """Return the intervals of sources, by name and in order; one more than asked for, at first."""
    found: dict[str, list[Look]] = {}
    given = {
        "seconds": int(resolution_of(since).total_seconds()),
        "since": since,
        "names": None if names is None else list(names),
    }
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(_READ, given):
            found.setdefault(row.pop("name"), []).append(Look(**row))
    return found
