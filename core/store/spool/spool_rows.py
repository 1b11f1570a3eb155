"""The rows of ``replication.raw_messages``, the spool; payloads stay the bytes they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from psycopg.rows import class_row
from psycopg.sql import SQL, Composed, Identifier

from pgrepl.decoding.formats import payload_decoder
from pgrepl.decoding.payload import PayloadDecoder
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.server_cursor import closed_at_the_end
from pgrepl.store.spool.spool_format import SERIAL_BUCKET, SegmentKind, checksum

__all__ = [
    "PartKey",
    "Segment",
    "Sizes",
    "SpooledPart",
    "copy_into_spool",
    "count_rows",
    "find_first",
    "measure_spool",
    "read_part",
    "read_part_keys",
    "read_parts",
    "read_segments",
    "turn_serial",
    "weigh_parts",
]

_FETCH_BYTES = 8 << 20
#: What is no more than this is read at once.
_LITTLE_BYTES = 1 << 20
#: A change that is read takes that much, however short its message is.
_CHANGE_BYTES = 256


class PartKey(NamedTuple):
    """Which row of a source's spool."""

    seq: int
    bucket: int
    part: int


class Sizes(NamedTuple):
    """How much some parts are."""

    #: Of all of them, each as ``SpooledPart.weight`` counts it.
    weight: int
    #: Bytes of payloads: of the biggest one, and of all.
    biggest: int
    byte_count: int


@dataclass(frozen=True, slots=True)
class SpooledPart:
    """One row of ``replication.raw_messages``."""

    seq: int
    bucket: int
    part: int
    first_lsn: Lsn
    last_lsn: Lsn
    last_commit_at: str
    change_count: int
    format: str
    encoding: str
    #: None: it was written by an older pgrepl.
    payload_crc: int | None
    payload: bytes

    @property
    def decoder(self) -> PayloadDecoder:
        """What reads its payload."""
        return payload_decoder(self.format, self.encoding)

    @property
    def weight(self) -> int:
        """What it takes of memory at least: its bytes, or some for each of its changes."""
        return max(len(self.payload), self.change_count * _CHANGE_BYTES)

    @property
    def key(self) -> PartKey:
        """Which row it is."""
        return PartKey(self.seq, self.bucket, self.part)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of the spool: what all its rows say together."""

    seq: int
    kind: SegmentKind
    first_lsn: Position
    last_lsn: Position
    first_commit_at: datetime
    last_commit_at: datetime
    change_count: int
    buckets: Sequence[int]
    #: Rows that are there, and rows that were written.
    part_count: int
    written_count: int
    #: Whether the last one is among them.
    has_end: bool = True
    #: Whether every payload is as long as it was written.
    is_sound: bool = True
    #: The changes of each bucket, in the order of ``buckets``.
    bucket_changes: Sequence[int] = ()

    @property
    def is_lone(self) -> bool:
        """Whether it is of one transaction: several parts of a bucket are of no other."""
        return self.kind == "serial" or self.written_count > len(self.buckets)


def read_segments(
    connection: Connection, source_id: int, from_seq: int, limit: int
) -> Sequence[Segment]:
    """Return the segments after one."""
    with connection.cursor(row_factory=class_row(Segment)) as cursor:
        return cursor.execute(
            load_query("pgrepl.store.spool", "segments"),
            {"source_id": source_id, "from_seq": from_seq, "limit": limit},
        ).fetchall()


def read_parts(  # noqa: PLR0917  which parts, as everywhere, and what is known of them
    connection: Connection,
    source_id: int,
    from_seq: int,
    to_seq: int,
    buckets: Sequence[int],
    sizes: Sizes | None = None,
) -> Iterator[SpooledPart]:
    """Return the parts after one segment up to another, a few at a time, in order."""
    wanted = (source_id, from_seq, to_seq, list(buckets))
    sizes = sizes or weigh_parts(connection, *wanted)
    if sizes.byte_count <= _LITTLE_BYTES:
        # A cursor of the server takes three statements instead of one.
        with connection.cursor(row_factory=class_row(SpooledPart), binary=True) as own:
            parts = own.execute(load_query("pgrepl.store.spool", "parts_after"), wanted).fetchall()
        for part in parts:
            _check(part)
            yield part
        return
    # In text a byte would be sent as two digits.
    found = connection.cursor("pgrepl_spool", row_factory=class_row(SpooledPart), binary=True)
    with closed_at_the_end(found) as cursor:
        cursor.itersize = max(1, _FETCH_BYTES // max(1, sizes.biggest))
        for part in cursor.execute(load_query("pgrepl.store.spool", "parts_after"), wanted):
            _check(part)
            yield part


def weigh_parts(
    connection: Connection, source_id: int, from_seq: int, to_seq: int, buckets: Sequence[int]
) -> Sizes:
    """Return how much those parts are."""
    # The server knows the length of a payload without reading it.
    ((weight, biggest, byte_count),) = connection.execute(
        "select coalesce(sum(greatest(octet_length(payload), change_count * %s::bigint)), 0)"
        "::bigint, coalesce(max(octet_length(payload)), 0),"
        " coalesce(sum(octet_length(payload)), 0)::bigint from replication.raw_messages"
        " where source_id = %s and seq > %s and seq <= %s and bucket = any (%s)",
        (_CHANGE_BYTES, source_id, from_seq, to_seq, list(buckets)),
    ).fetchall()
    return Sizes(int(weight), int(biggest), int(byte_count))


def read_part_keys(
    connection: Connection, source_id: int, from_seq: int, to_seq: int, buckets: Sequence[int]
) -> Sequence[PartKey]:
    """Return which parts come after one segment up to another, in order."""
    rows = connection.execute(
        "select seq, bucket, part from replication.raw_messages"
        " where source_id = %s and seq > %s and seq <= %s and bucket = any (%s) order by seq, part",
        (source_id, from_seq, to_seq, list(buckets)),
    )
    return [PartKey(*row) for row in rows.fetchall()]


def read_part(connection: Connection, source_id: int, key: PartKey) -> SpooledPart:
    """Return one part."""
    with connection.cursor(row_factory=class_row(SpooledPart), binary=True) as cursor:
        part = cursor.execute(
            load_query("pgrepl.store.spool", "part"), (source_id, *key)
        ).fetchone()
    if part is None:
        raise SpoolError(f"row {key.seq}/{key.bucket}/{key.part} does not exist in the spool")
    _check(part)
    return part


def _check(part: SpooledPart) -> None:
    """Refuse a payload that is not as it was written."""
    if part.payload_crc not in (None, checksum([part.payload])):
        raise SpoolError(
            f"the spool is corrupted: row {part.seq}/{part.bucket}/{part.part} is not as it was"
            " written",
            hint="Nothing of it is applied. If the row cannot be had back, copy the source again:"
            " pgrepl basebackup SOURCE --restart",
        )


def find_first(connection: Connection, source_id: int) -> int | None:
    """Return the first segment that the spool has of a source; None: it has none."""
    ((seq,),) = connection.execute(
        "select min(seq) from replication.raw_messages where source_id = %s", (source_id,)
    ).fetchall()
    return None if seq is None else int(seq)


def measure_spool(connection: Connection, source_id: int) -> int:
    """Return what a source's rows take up in the spool, compressed as they are."""
    ((size,),) = connection.execute(
        "select coalesce(sum(pg_column_size(payload)), 0) from replication.raw_messages"
        " where source_id = %s",
        (source_id,),
    ).fetchall()
    return int(size)


def count_rows(connection: Connection, source_id: int) -> int:
    """Return how many rows of a source the spool has."""
    ((count,),) = connection.execute(
        "select count(*) from replication.raw_messages where source_id = %s", (source_id,)
    ).fetchall()
    return int(count)


def turn_serial(connection: Connection, source_id: int, seq: int) -> None:
    """Make a segment serial whose first rows are written already."""
    connection.execute(
        "update replication.raw_messages set kind = 'serial', bucket = %s"
        " where source_id = %s and seq = %s",
        (SERIAL_BUCKET, source_id, seq),
    )


def copy_into_spool(columns: Iterable[str]) -> Composed:
    """Return the COPY that takes rows of the spool, in binary."""
    return SQL("copy replication.raw_messages ({}) from stdin (format binary)").format(
        SQL(", ").join(map(Identifier, columns))
    )
