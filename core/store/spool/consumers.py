"""Who reads the spool besides replay: ``replication.consumer``. Every move is fenced."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.store.progress.shard_progress import Fenced, take_positions
from pgrepl.store.spool.consumer_gaps import read_gaps

__all__ = [
    "Consumer",
    "ConsumerKind",
    "ConsumerOverview",
    "ConsumerState",
    "activate",
    "add_consumer",
    "find_consumer",
    "forget_prepared",
    "move_to_prepared",
    "pass_segment",
    "prepare",
    "read_consumers",
    "remove_consumer",
    "touch",
]

ConsumerKind = Literal["kafka", "files", "spark"]
ConsumerState = Literal["starting", "active", "lost"]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A row of ``replication.consumer``."""

    source_id: int
    name: str
    id: UUID
    kind: ConsumerKind
    destination: str
    options: Mapping[str, Any]
    state: ConsumerState
    seq: int
    lsn: Lsn
    memory: Mapping[str, Any]
    tables: Sequence[Mapping[str, Any]]
    prepared: Mapping[str, Any] | None
    keep: timedelta
    lost_at: datetime | None


@dataclass(frozen=True, slots=True)
class ConsumerOverview:
    """A consumer as who watches over it sees it."""

    name: str
    kind: ConsumerKind
    destination: str
    state: ConsumerState
    lsn: Lsn
    #: How many segments of the spool it has not passed.
    segment_count: int
    #: What of the spool's rows is after its position, as they are stored.
    byte_count: int
    #: How far on the source its position is from what was received last.
    lag_bytes: int
    moved_at: datetime
    keep: timedelta
    lost_at: datetime | None
    #: Tables of which it does not have everything, and why.
    gaps: Mapping[tuple[str, str], str]

    def seconds_left(self, now: datetime) -> float | None:
        """Return after how long it is let go if it does not move; None: it has read everything."""
        if self.lost_at is not None or not self.segment_count:
            return None
        return max((self.moved_at + self.keep - now).total_seconds(), 0.0)

    def is_in_danger(self, now: datetime) -> bool:
        """Whether a quarter of the time or less is left until it is let go."""
        left_s = self.seconds_left(now)
        return left_s is not None and left_s * 4 <= self.keep.total_seconds()


def add_consumer(
    connection: Connection,
    source_id: int,
    name: str,
    *,
    kind: ConsumerKind,
    destination: str,
    options: Mapping[str, Any],
    keep: timedelta,
) -> bool:
    """Keep the spool for a new consumer, from what replay has applied on; False: replay never ran.

    The shards stand still for it, so that nothing after that is deleted unseen.
    """
    with connection.transaction():
        take_positions(connection, source_id)
        added = connection.execute(
            "insert into replication.consumer"
            " (source_id, name, kind, destination, options, state, seq, lsn, keep)"
            " select %s, %s, %s, %s, %s, 'starting', min(applied_seq), min(applied_lsn), %s"
            " from replication.shard_progress where source_id = %s having count(*) > 0",
            (source_id, name, kind, destination, Jsonb(options), keep, source_id),
        )
    return added.rowcount == 1


def find_consumer(connection: Connection, source_id: int, name: str) -> Consumer | None:
    """Return a consumer; None: there is none of that name."""
    with connection.cursor(row_factory=class_row(Consumer)) as cursor:
        return cursor.execute(
            "select source_id, name, id, kind, destination, options, state, seq, lsn, memory,"
            " tables, prepared, keep, lost_at from replication.consumer"
            " where source_id = %s and name = %s",
            (source_id, name),
        ).fetchone()


def remove_consumer(connection: Connection, source_id: int, name: str) -> bool:
    """Forget a consumer; False: there was none."""
    removed = connection.execute(
        "delete from replication.consumer where source_id = %s and name = %s", (source_id, name)
    )
    return removed.rowcount == 1


def prepare(connection: Connection, consumer: Consumer, prepared: Mapping[str, Any]) -> None:
    """Note what is about to be written, before it can be seen.

    Raises
    ------
    Fenced
        when the consumer is not where it was, or was let go.

    """
    _one(
        connection.execute(
            "update replication.consumer set prepared = %s"
            " where source_id = %s and id = %s and seq = %s and state <> 'lost'",
            (Jsonb(prepared), consumer.source_id, consumer.id, consumer.seq),
        ).rowcount
    )


def forget_prepared(connection: Connection, consumer: Consumer) -> None:
    """Note that what was prepared was not written."""
    connection.execute(
        "update replication.consumer set prepared = null where source_id = %s and id = %s",
        (consumer.source_id, consumer.id),
    )


def move_to_prepared(connection: Connection, consumer: Consumer) -> None:
    """Move a consumer to what it had prepared: it is written.

    Raises
    ------
    Fenced
        when nothing is prepared, or the consumer is not where it was.

    """
    _one(
        connection.execute(
            "update replication.consumer set seq = (prepared ->> 'seq')::bigint,"
            " lsn = (prepared ->> 'lsn')::pg_lsn, memory = prepared -> 'memory',"
            " tables = coalesce(prepared -> 'tables', tables), prepared = null,"
            " state = case state when 'lost' then state else 'active' end, moved_at = now()"
            " where source_id = %s and id = %s and seq = %s and prepared is not null",
            (consumer.source_id, consumer.id, consumer.seq),
        ).rowcount
    )


def activate(connection: Connection, consumer: Consumer, state: Mapping[str, Any]) -> None:
    """Begin at a position with nothing to write before it."""
    with connection.transaction():
        prepare(connection, consumer, state)
        move_to_prepared(connection, consumer)


def touch(connection: Connection, consumer: Consumer) -> None:
    """Note that a consumer had nothing to read."""
    connection.execute(
        "update replication.consumer set moved_at = now()"
        " where source_id = %s and id = %s and state <> 'lost'",
        (consumer.source_id, consumer.id),
    )


def pass_segment(connection: Connection, source_id: int, consumer_id: UUID, seq: int) -> None:
    """Move a consumer that notes elsewhere how far it is; never back.

    Raises
    ------
    Fenced
        when the consumer was removed, or let go.

    """
    _one(
        connection.execute(
            "update replication.consumer c set state = 'active', moved_at = now(),"
            " seq = greatest(c.seq, %(seq)s), lsn = greatest(c.lsn, (select max(m.last_lsn)"
            " from replication.raw_messages m where m.source_id = c.source_id"
            " and m.seq = %(seq)s))"
            " where c.source_id = %(source_id)s and c.id = %(id)s and c.state <> 'lost'",
            {"seq": seq, "source_id": source_id, "id": consumer_id},
        ).rowcount
    )


def read_consumers(
    connection: Connection, ids: Sequence[int]
) -> Mapping[int, Sequence[ConsumerOverview]]:
    """Return the consumers of each source, by name."""
    rows = connection.execute(
        "select c.source_id, c.name, c.kind, c.destination, c.state, c.lsn,"
        " greatest(coalesce(r.last_seq, c.seq) - c.seq, 0), m.byte_count,"
        " case when r.last_seq > c.seq then greatest(r.received_lsn - c.lsn, 0)::bigint else 0 end,"
        " c.moved_at, c.keep, c.lost_at"
        " from replication.consumer c left join replication.receive_progress r using (source_id)"
        " cross join lateral (select coalesce(sum(pg_column_size(payload)), 0)::bigint"
        " as byte_count from replication.raw_messages"
        " where source_id = c.source_id and seq > c.seq and c.lost_at is null) m"
        " where c.source_id = any (%s) order by c.source_id, c.name",
        (list(ids),),
    )
    gaps = read_gaps(connection, ids)
    found: dict[int, list[ConsumerOverview]] = defaultdict(list)
    for source_id, *values in rows:
        row = [*values, gaps.get((source_id, values[0]), {})]
        found[source_id].append(ConsumerOverview(*row))
    return found


def _one(count: int) -> None:
    if count != 1:
        raise Fenced("a consumer was moved by another program, or let go")
