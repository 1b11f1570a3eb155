"""The bindings of target time to source LSN, which ``replication.progress`` shows.

A binding ``(at, lsn)`` says: from the time ``at`` on the target showed the source as it was at
``lsn``, until the next one. The replayer publishes one in the transaction that removes applied rows
of the spool; for an idle source, at the received LSN. The table's trigger keeps them append-only,
strictly increasing in both, and never ahead of a shard, whoever writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from psycopg.rows import class_row

from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection

__all__ = [
    "Binding",
    "find_binding",
    "find_oldest",
    "prune",
    "publish",
    "read_newest",
    "read_since",
]

# Where the clock is before the newest binding, time goes on by the smallest step there is.
_PUBLISH = """
insert into replication.binding (source_id, at, lsn)
select s.source_id, greatest(clock_timestamp(), last.at + interval '1 microsecond'), %(lsn)s
  from replication.source s
  left join lateral (select at, lsn from replication.binding b
                      where b.source_id = s.source_id order by at desc limit 1) last on true
 where s.source_id = %(source_id)s
   and (last.lsn is null or last.lsn < %(lsn)s)
"""

_PRUNE = """
delete from replication.binding
 where source_id = %(source_id)s
   and at < (select max(at) from replication.binding
              where source_id = %(source_id)s and at <= %(horizon)s)
"""


@dataclass(frozen=True, slots=True)
class Binding:
    """From the time ``at`` on the target showed the source as it was at ``lsn``."""

    at: datetime
    lsn: Lsn


def publish(connection: Connection, source_id: int, lsn: Position) -> bool:
    """Bind the present time to an LSN that every shard has passed; False when it is not newer.

    The LSN is the end of a transaction, or a received position with nothing before it left to
    apply. Call it as the last thing before commit: the time is taken now.

    Raises
    ------
    psycopg.errors.CheckViolation
        when a shard still has a segment before the LSN to apply.

    """
    done = connection.execute(_PUBLISH, {"source_id": source_id, "lsn": lsn})
    return done.rowcount > 0


def prune(connection: Connection, source_id: int, horizon: datetime) -> int:
    """Remove the bindings that no time from the horizon on needs, and return how many.

    The last one at or before the horizon stays: it is the answer for the horizon itself.
    """
    return connection.execute(_PRUNE, {"source_id": source_id, "horizon": horizon}).rowcount


def read_newest(connection: Connection, source_id: int, count: int) -> Sequence[Binding]:
    """Return the last bindings of a source, in the order they were published."""
    query: LiteralString = (
        "select at, lsn from (select at, lsn from replication.binding where source_id = %s"
        " order by at desc limit %s) newest order by at"
    )
    return _read(connection, query, source_id, count)


def read_since(connection: Connection, source_id: int, at: datetime) -> Sequence[Binding]:
    """Return all bindings after a time, in the order they were published."""
    query: LiteralString = (
        "select at, lsn from replication.binding where source_id = %s and at > %s order by at"
    )
    return _read(connection, query, source_id, at)


def find_oldest(connection: Connection, source_id: int) -> Binding | None:
    """Return the oldest binding that is kept."""
    query: LiteralString = (
        "select at, lsn from replication.binding where source_id = %s order by at limit 1"
    )
    return next(iter(_read(connection, query, source_id)), None)


def find_binding(connection: Connection, source_id: int, at: datetime) -> Binding | None:
    """Return the binding that held at a time."""
    query: LiteralString = (
        "select at, lsn from replication.binding where source_id = %s and at <= %s"
        " order by at desc limit 1"
    )
    return next(iter(_read(connection, query, source_id, at)), None)


def _read(connection: Connection, query: LiteralString, *given: object) -> Sequence[Binding]:
    with connection.cursor(row_factory=class_row(Binding)) as cursor:
        return cursor.execute(query, given).fetchall()
