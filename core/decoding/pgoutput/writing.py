"""Messages in pgoutput's form, for what comes from elsewhere: the inverse of its grammar."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence

from pgrepl.decoding.payload import RecordPlace
from pgrepl.decoding.pgoutput.grammar import (
    BEGIN_BYTES,
    OID,
    RECORD,
    TUPLE_AT,
    UNCHANGED,
    Tuple,
    old_tuple_at,
    read_tuple,
)

__all__ = [
    "Row",
    "begin",
    "delete",
    "end_of_begin",
    "insert",
    "keep_columns",
    "map_tuples",
    "next_begin",
    "put_into_schema",
    "relation",
    "schema_in",
    "truncate",
    "update",
    "widen",
]

#: Texts, None for a null, ``UNCHANGED`` for a value that stays as it is.
Row = Sequence[bytes | None]

_TEXT_OID = 25
_COUNT = struct.Struct("!H").pack
_LENGTH = struct.Struct("!cI").pack
_OFFSET = struct.Struct("!q")


def begin(commit_lsn: int, at: int, xid: int = 0) -> bytes:
    """Begin a transaction; the time is in microseconds since 2000."""
    return struct.pack("!cQqI", b"B", commit_lsn, at, xid)


def end_of_begin(records: Sequence[RecordPlace]) -> bytes:
    """Return what follows in a begin message that names the records of the next change.

    The changes after it, up to another begin message, are of the records that follow the only one.
    """
    pieces: list[bytes] = []
    for topic, partition, offset in records:
        name = topic.encode()
        pieces += (RECORD.pack(offset, partition, len(name)), name)
    return b"".join(pieces)


def next_begin(begin: bytes) -> bytes:
    """Return the begin message for the change after the one that this is for."""
    (offset,) = _OFFSET.unpack_from(begin, BEGIN_BYTES)
    after = BEGIN_BYTES + _OFFSET.size
    return begin[:BEGIN_BYTES] + _OFFSET.pack(offset + 1) + begin[after:]


def relation(
    oid: int, name: tuple[str, str], columns: Sequence[str], identity: Collection[str]
) -> bytes:
    """Describe a table."""
    listed = b"".join(
        bytes([column in identity]) + column.encode() + b"\0" + struct.pack("!Ii", _TEXT_OID, -1)
        for column in columns
    )
    names = b"".join(part.encode() + b"\0" for part in name)
    return b"R" + struct.pack("!I", oid) + names + b"d" + struct.pack("!H", len(columns)) + listed


def schema_in(described: bytes) -> bytes:
    """Return the schema that the description of a table names."""
    return described[OID.stop : described.index(0, OID.stop)]


def put_into_schema(described: bytes, schema: bytes) -> bytes:
    """Return the description of a table that is in another schema."""
    return described[: OID.stop] + schema + described[described.index(0, OID.stop) :]


def keep_columns(described: bytes, is_kept: Sequence[bool]) -> bytes:
    """Return the description of a table with some of its columns."""
    # Of texts that end with a zero byte there are schema and table; then what identity it has.
    at = described.index(0, described.index(0, OID.stop) + 1) + 2
    pieces = [described[:at], struct.pack("!H", sum(is_kept))]
    at += 2
    for is_this in is_kept:
        # Whether it is of the identity, its name, the oid of its type and its modifier.
        end = described.index(0, at + 1) + 1 + 8
        if is_this:
            pieces.append(described[at:end])
        at = end
    if at != len(described):
        raise ValueError("it has another length")
    return b"".join(pieces)


def insert(oid: int, row: Row) -> bytes:
    """Insert a row."""
    return struct.pack("!cIc", b"I", oid, b"N") + _tuple(row)


def update(oid: int, row: Row, *, key: Row | None = None, old: Row | None = None) -> bytes:
    """Update a row, found by the key that it had, or by all that it was."""
    before = b""
    if key is not None:
        before = b"K" + _tuple(key)
    elif old is not None:
        before = b"O" + _tuple(old)
    return struct.pack("!cI", b"U", oid) + before + b"N" + _tuple(row)


def delete(oid: int, *, key: Row | None = None, old: Row = ()) -> bytes:
    """Delete a row, found by its key, or by all that it was."""
    which, row = (b"O", old) if key is None else (b"K", key)
    return struct.pack("!cIc", b"D", oid, which) + _tuple(row)


def truncate(oid: int) -> bytes:
    """Empty a table."""
    return struct.pack("!cIBI", b"T", 1, 0, oid)


def widen(change: bytes, extra: int) -> bytes:
    """Return a change whose rows have some more columns at their end, all of them null."""
    return map_tuples(change, lambda row: [*row, *[None] * extra])


def map_tuples(change: bytes, make: Callable[[Tuple], Row]) -> bytes:
    """Return a change with other rows, old and new, made of those that it has."""
    old_at = old_tuple_at(change)
    pieces = [change[:TUPLE_AT]]
    at = TUPLE_AT
    if old_at is not None:
        old, at = read_tuple(change, at)
        pieces += (_tuple(make(old)), change[at : at + 1])
        at += 1
    if at < len(change):
        pieces.append(_tuple(make(read_tuple(change, at)[0])))
    return b"".join(pieces)


def _tuple(row: Row) -> bytes:
    pieces = [_COUNT(len(row))]
    for value in row:
        if value is None:
            pieces.append(b"n")
        elif value is UNCHANGED:
            pieces.append(b"u")
        else:
            pieces.append(_LENGTH(b"t", len(value)))
            pieces.append(value)
    return b"".join(pieces)
