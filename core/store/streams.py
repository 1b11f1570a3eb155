"""Sources that are no databases: where their partitions are, and records that could not be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from pgrepl.errors import AlreadyRunning
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.store.sources import SourceRow, add_source, find_source, set_copying, set_streaming

__all__ = [
    "OffsetMove",
    "OffsetsMoved",
    "ParkedRecord",
    "Partition",
    "StreamOffset",
    "add_partition",
    "add_stream",
    "count_parked_records",
    "forget_parked_records",
    "is_parked_record",
    "list_parked_places",
    "move_partitions",
    "park_records",
    "prune_positions",
    "read_offsets",
    "read_parked_records",
    "read_partitions",
    "record_position",
    "set_parked_reason",
    "settle_parked_records",
]


class OffsetsMoved(AlreadyRunning):
    """Partitions are not where this receiver left them: another one has received them."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A row of ``replication.stream_partition``."""

    topic: str
    partition: int
    incarnation: str
    next_offset: int
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """A partition moves from one offset to another, in the transaction that writes the spool."""

    topic: str
    partition: int
    expected: int
    next_offset: int
    state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParkedRecord:
    """A record that could not be read, and why."""

    topic: str
    partition: int
    record_offset: int
    reason: str
    key: bytes | None = None
    value: bytes | None = None


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """What was received of a partition at some position."""

    topic: str
    partition: int
    next_offset: int
    #: The end of the last transaction before it, where a transaction topic tells.
    source_lsn: Lsn | None


def add_stream(connection: Connection, name: str, slot: str) -> SourceRow:
    """Record a source that is no database: it has nothing to copy, and streams at once."""
    row = find_source(connection, name)
    if row is None:
        source_id = add_source(
            connection, name=name, slot=slot, dbname=name, system_identifier=0, timeline=0
        )
        set_copying(connection, source_id, Lsn(0))
        set_streaming(connection, source_id)
        row = find_source(connection, name)
        if row is None:
            raise AssertionError("it was just added")
    return row


def read_partitions(connection: Connection, source_id: int) -> Sequence[Partition]:
    """Return where the partitions of a source are."""
    with connection.cursor(row_factory=class_row(Partition)) as cursor:
        return cursor.execute(
            "select topic, partition, incarnation, next_offset, state"
            " from replication.stream_partition where source_id = %s order by topic, partition",
            (source_id,),
        ).fetchall()


def add_partition(connection: Connection, source_id: int, partition: Partition) -> None:
    """Record a partition before anything of it is received."""
    connection.execute(
        "insert into replication.stream_partition"
        " (source_id, topic, partition, incarnation, next_offset, state)"
        " values (%s, %s, %s, %s, %s, %s)",
        (
            *(source_id, partition.topic, partition.partition, partition.incarnation),
            *(partition.next_offset, Jsonb(dict(partition.state))),
        ),
    )


def move_partitions(connection: Connection, source_id: int, moves: Sequence[OffsetMove]) -> None:
    """Move partitions, in the transaction that writes what lies between.

    Raises
    ------
    OffsetsMoved
        when one does not stand where it was left.

    """
    moved = connection.execute(
        "update replication.stream_partition p set next_offset = m.next_offset, state = m.state,"
        " updated_at = now() from unnest(%s::text[], %s::integer[], %s::bigint[], %s::bigint[],"
        " %s::jsonb[]) m (topic, partition, expected, next_offset, state)"
        " where p.source_id = %s and p.topic = m.topic and p.partition = m.partition"
        " and p.next_offset = m.expected",
        (
            [move.topic for move in moves],
            [move.partition for move in moves],
            [move.expected for move in moves],
            [move.next_offset for move in moves],
            [Jsonb(dict(move.state)) for move in moves],
            source_id,
        ),
    )
    if moved.rowcount != len(moves):
        raise OffsetsMoved(
            "another receiver moved the offsets of this source",
            hint="Nothing was written; only one receiver per source can run.",
        )


def record_position(
    connection: Connection,
    source_id: int,
    lsn: Lsn,
    moves: Sequence[OffsetMove],
    source_lsn: Lsn | None,
) -> None:
    """Record which offsets a position stands for."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into replication.stream_position"
            " (source_id, lsn, topic, partition, next_offset, source_lsn)"
            " values (%s, %s, %s, %s, %s, %s)",
            [
                (source_id, lsn, move.topic, move.partition, move.next_offset, source_lsn)
                for move in moves
            ],
        )


def read_offsets(connection: Connection, source_id: int, lsn: Lsn) -> Sequence[StreamOffset]:
    """Return the offsets that a position stands for, of every partition."""
    with connection.cursor(row_factory=class_row(StreamOffset)) as cursor:
        return cursor.execute(
            "select distinct on (topic, partition) topic, partition, next_offset, source_lsn"
            " from replication.stream_position where source_id = %s and lsn <= %s"
            " order by topic, partition, lsn desc",
            (source_id, lsn),
        ).fetchall()


def prune_positions(connection: Connection, source_id: int) -> int:
    """Remove the positions that no binding kept needs, and return how many."""
    return connection.execute(
        "delete from replication.stream_position p using"
        " (select topic, partition, max(lsn) as lsn from replication.stream_position"
        "   where source_id = %(id)s and lsn <="
        "         (select min(lsn) from replication.binding where source_id = %(id)s)"
        "   group by topic, partition) kept"
        " where p.source_id = %(id)s and (p.topic, p.partition) = (kept.topic, kept.partition)"
        " and p.lsn < kept.lsn",
        {"id": source_id},
    ).rowcount


def park_records(connection: Connection, source_id: int, records: Sequence[ParkedRecord]) -> None:
    """Keep records that could not be read."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into replication.parked_record"
            " (source_id, topic, partition, record_offset, reason, key, value)"
            " values (%s, %s, %s, %s, %s, %s, %s)"
            # One that waits with its transaction is read again after a restart.
            " on conflict do nothing",
            [
                (
                    *(source_id, record.topic, record.partition, record.record_offset),
                    *(record.reason, record.key, record.value),
                )
                for record in records
            ],
        )


def settle_parked_records(
    connection: Connection, source_id: int, gone: Sequence[tuple[str, int, int]]
) -> None:
    """Let records go that were received after all, or that a later one replaced."""
    connection.execute(
        "delete from replication.parked_record p using"
        " unnest(%s::text[], %s::integer[], %s::bigint[]) as g (topic, partition, record_offset)"
        " where p.source_id = %s and (p.topic, p.partition, p.record_offset)"
        " = (g.topic, g.partition, g.record_offset)",
        (*([place[at] for place in gone] for at in range(3)), source_id),
    )


def set_parked_reason(
    connection: Connection, source_id: int, place: tuple[str, int, int], reason: str
) -> None:
    """Record why a record still cannot be received."""
    connection.execute(
        "update replication.parked_record set reason = %s"
        " where source_id = %s and (topic, partition, record_offset) = (%s, %s, %s)",
        (reason, source_id, *place),
    )


def list_parked_places(
    connection: Connection, source_id: int, after: tuple[str, int, int], limit: int
) -> Sequence[tuple[str, int, int]]:
    """Return topic, partition and offset of the records that wait after one, in their order."""
    return connection.execute(
        "select topic, partition, record_offset from replication.parked_record"
        " where source_id = %s and (topic, partition, record_offset) > (%s, %s, %s)"
        " order by topic, partition, record_offset limit %s",
        (source_id, *after, limit),
    ).fetchall()


def is_parked_record(connection: Connection, source_id: int, place: tuple[str, int, int]) -> bool:
    """Whether a record waits, by topic, partition and offset."""
    ((is_there,),) = connection.execute(
        "select exists (select from replication.parked_record"
        " where source_id = %s and (topic, partition, record_offset) = (%s, %s, %s))",
        (source_id, *place),
    ).fetchall()
    return bool(is_there)


def count_parked_records(connection: Connection) -> Mapping[int, int]:
    """Return how many records wait, by source; a schema of an older pgrepl has none."""
    ((is_there,),) = connection.execute(
        "select to_regclass('replication.parked_record') is not null"
    ).fetchall()
    if not is_there:
        return {}
    rows = connection.execute(
        "select source_id, count(*) from replication.parked_record group by source_id"
    )
    return dict(rows.fetchall())


def read_parked_records(
    connection: Connection, source_id: int, limit: int
) -> Sequence[ParkedRecord]:
    """Return the first records that wait, in the order of their offsets."""
    with connection.cursor(row_factory=class_row(ParkedRecord)) as cursor:
        return cursor.execute(
            "select topic, partition, record_offset, reason, key, value"
            " from replication.parked_record where source_id = %s"
            " order by topic, partition, record_offset limit %s",
            (source_id, limit),
        ).fetchall()


def forget_parked_records(
    connection: Connection, source_id: int, place: tuple[str, int, int] | None
) -> int:
    """Let a record go, by topic, partition and offset, or all of a source; return how many."""
    topic, partition, offset = place or (None, None, None)
    gone = connection.execute(
        "delete from replication.parked_record where source_id = %(id)s"
        " and (%(topic)s::text is null"
        " or topic = %(topic)s and partition = %(partition)s and record_offset = %(offset)s)",
        {"id": source_id, "topic": topic, "partition": partition, "offset": offset},
    )
    return gone.rowcount
