"""Read rows of the spool; payloads stay the bytes they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from psycopg.rows import class_row

from pgrepl.decoding.formats import payload_decoder
from pgrepl.decoding.payload import PayloadDecoder
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = [
    "PartKey",
    "SpooledPart",
    "count_bytes",
    "read_part",
    "read_part_keys",
    "read_parts",
]

_FETCH_BYTES = 8 << 20


class PartKey(NamedTuple):
    """Which row of a source's spool."""

    seq: int
    bucket: int
    part: int


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
    payload: bytes

    @property
    def decoder(self) -> PayloadDecoder:
        """What reads its payload."""
        return payload_decoder(self.format, self.encoding)

    @property
    def key(self) -> PartKey:
        """Which row it is."""
        return PartKey(self.seq, self.bucket, self.part)


def read_parts(
    connection: Connection, source_id: int, from_seq: int, to_seq: int, buckets: Sequence[int]
) -> Iterator[SpooledPart]:
    """Return the parts after one segment up to another, a few at a time, in order."""
    wanted = (source_id, from_seq, to_seq, list(buckets))
    # The server knows the length of a payload without reading it.
    ((biggest,),) = connection.execute(
        "select coalesce(max(octet_length(payload)), 0) from replication.raw_messages"
        " where source_id = %s and seq > %s and seq <= %s and bucket = any (%s)",
        wanted,
    ).fetchall()
    # In text a byte would be sent as two digits.
    with connection.cursor(
        "pgrepl_spool", row_factory=class_row(SpooledPart), binary=True
    ) as cursor:
        cursor.itersize = max(1, _FETCH_BYTES // max(1, biggest))
        cursor.execute(load_query("pgrepl.replayer", "parts_after"), wanted)
        yield from cursor


def count_bytes(
    connection: Connection, source_id: int, from_seq: int, to_seq: int, buckets: Sequence[int]
) -> int:
    """Return how many bytes those parts have."""
    ((size,),) = connection.execute(
        "select coalesce(sum(octet_length(payload)), 0)::bigint from replication.raw_messages"
        " where source_id = %s and seq > %s and seq <= %s and bucket = any (%s)",
        (source_id, from_seq, to_seq, list(buckets)),
    ).fetchall()
    return int(size)


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
        part = cursor.execute(load_query("pgrepl.replayer", "part"), (source_id, *key)).fetchone()
    if part is None:
        raise SpoolError(f"row {key.seq}/{key.bucket}/{key.part} does not exist in the spool")
    return part
