"""Rows of the spool as COPY's binary format has them: nothing in it needs escaping. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from pgrepl.store.spool.spool_format import SpoolPart, checksum

__all__ = ["COLUMNS", "encode_rows"]

#: In the order of ``encode_rows``; the payload is the last.
COLUMNS = (
    "source_id",
    "seq",
    "bucket",
    "part",
    "kind",
    "format",
    "encoding",
    "first_lsn",
    "last_lsn",
    "first_commit_at",
    "last_commit_at",
    "change_count",
    "is_last",
    "payload_bytes",
    "payload_crc",
    "payload",
)

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"

# A row's field count; then each field's length before the field, the payload's without it.
_HEAD = struct.Struct("!hiiiqihii")
_TAIL = struct.Struct("!iQiQiqiqiii?iiiii")

#: libpq buffers what it is given at once; big messages are given in pieces.
_PIECE_BYTES = 1 << 20


def encode_rows(
    source_id: int, parts: Sequence[SpoolPart], *, format_name: str, encoding: str
) -> Iterator[bytes]:
    """Return the rows of parts, in pieces."""
    yield _SIGNATURE
    for part in parts:
        size = sum(map(len, part.payload))
        head = _HEAD.pack(len(COLUMNS), 4, source_id, 8, part.seq, 2, part.bucket, 4, part.part)
        tail = _TAIL.pack(
            *(8, part.first_lsn, 8, part.last_lsn),
            *(8, part.first_commit_at, 8, part.last_commit_at),
            *(4, part.change_count, 1, part.is_last),
            *(4, size, 4, checksum(part.payload), size),
        )
        how_to_read = _text(part.format or format_name) + _text(encoding)
        yield b"".join((head, _text(part.kind), how_to_read, tail))
        for piece in part.payload:
            for start in range(0, len(piece), _PIECE_BYTES):
                yield piece[start : start + _PIECE_BYTES]
    yield _TRAILER


def _text(value: str) -> bytes:
    return len(value).to_bytes(4, "big") + value.encode("ascii")
