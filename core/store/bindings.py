"""The bindings of target time to source LSN, which ``replication.progress`` shows.

A binding ``(at, lsn)`` says: from the time ``at`` on the target showed the source as it was at
``lsn``, until the next one. The replayer publishes one in the transaction that removes applied rows
of the spool; for an idle source, at the received LSN. The table's trigger keeps them append-only,
strictly increasing in both, and behind every shard, whoever writes.
"""

from __future__ import annotations

from datetime import datetime

from pgrepl.position import Position
from pgrepl.postgres.connect import Connection

__all__ = ["prune", "publish"]

# Where the clock stands behind the newest binding, time goes on by the smallest step there is.
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
