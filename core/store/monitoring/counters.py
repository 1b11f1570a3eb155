"""How much was applied so far: ``replication.replay_counter``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Literal

from pgrepl.postgres.connect import Connection
from pgrepl.store.spool.spool_format import SegmentKind

__all__ = ["DURATIONS_S", "BatchCounter", "count_batch", "read_batch_counters"]

#: Limits of the classes that durations of batches are counted in; the last class has none.
DURATIONS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# In one round trip. Nobody waits for a disk here: a count that a crash loses was no change.
_COUNT = SQL(
    "begin; set local synchronous_commit = off;"
    " insert into replication.replay_counter as c"
    " (source_id, kind, batch_count, change_count, seconds, durations)"
    " values ({source}, {kind}, 1, {changes}, {seconds}, {durations})"
    " on conflict (source_id, kind) do update set batch_count = c.batch_count + 1,"
    " change_count = c.change_count + excluded.change_count,"
    " seconds = c.seconds + excluded.seconds,"
    " durations[{place}] = c.durations[{place}] + 1;"
    " commit"
)


@dataclass(frozen=True, slots=True)
class BatchCounter:
    """The batches of a kind that were applied of a source."""

    kind: SegmentKind
    batch_count: int
    change_count: int
    seconds: float
    #: How many of them fell into each class of ``DURATIONS_S``, and after these the longer ones.
    durations: Sequence[int]


def count_batch(
    connection: Connection,
    source_id: int,
    kind: SegmentKind,
    *,
    change_count: int,
    seconds: float,
) -> None:
    """Count a batch that is applied; outside of a transaction."""
    place = bisect_left(DURATIONS_S, seconds)
    durations = [int(place == other) for other in range(len(DURATIONS_S) + 1)]
    connection.execute(
        _COUNT.format(
            source=Literal(source_id),
            kind=Literal(kind),
            changes=Literal(change_count),
            seconds=Literal(seconds),
            durations=Literal(durations),
            place=Literal(place + 1),
        )
    )


def read_batch_counters(
    connection: Connection, ids: Sequence[int]
) -> Mapping[int, Sequence[BatchCounter]]:
    """Return what is counted of each source; none: no entry."""
    found: dict[int, list[BatchCounter]] = {}
    for source_id, *values in connection.execute(
        "select source_id, kind, batch_count, change_count, seconds, durations"
        " from replication.replay_counter where source_id = any (%(ids)s)"
        " order by source_id, kind",
        {"ids": list(ids)},
    ):
        found.setdefault(source_id, []).append(BatchCounter(*values))
    return found
