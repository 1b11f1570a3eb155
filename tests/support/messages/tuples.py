"""Messages as pgoutput sends them, for tests without a server."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence

TIME_US = 848_000_000_000_000
XID = 7
#: A value that is unchanged and stored out of line.
UNCHANGED = b"\0"

Value = str | bytes | None


def oid_of(table: str) -> int:
    """Make up the number of a table."""
    return zlib.crc32(table.encode()) or 1


def begin(commit_lsn: int, *, at: int = TIME_US, xid: int = XID) -> bytes:
    return struct.pack("!cQqI", b"B", commit_lsn, at, xid)


def commit(commit_lsn: int, *, at: int = TIME_US) -> bytes:
    """End a transaction whose commit record is 0x30 bytes long."""
    return struct.pack("!cBQQq", b"C", 0, commit_lsn, commit_lsn + 0x30, at)


def relation(
    table: str,
    columns: Sequence[str] = ("id", "note"),
    key: Sequence[str] = ("id",),
    *,
    schema: str = "public",
    oid: int | None = None,
    codec: str = "utf-8",
) -> bytes:
    """Describe a table."""
    listed = b"".join(
        bytes([name in key]) + name.encode(codec) + b"\0" + struct.pack("!Ii", 25, -1)
        for name in columns
    )
    names = schema.encode(codec) + b"\0" + table.encode(codec) + b"\0"
    number = (oid_of(table) if oid is None else oid).to_bytes(4, "big")
    return b"R" + number + names + b"d" + len(columns).to_bytes(2, "big") + listed


def change(
    action: str,
    table: str,
    new: Sequence[Value] | None = None,
    *,
    key: Sequence[Value] | None = None,
    old: Sequence[Value] | None = None,
    oid: int | None = None,
) -> bytes:
    """Make a change: its new row, the key of its old one or all of that."""
    message = action.encode() + (oid_of(table) if oid is None else oid).to_bytes(4, "big")
    for kind, values in ((b"K", key), (b"O", old), (b"N", new)):
        if values is not None:
            message += kind + _tuple(values)
    return message


def truncate(*tables: str, options: int = 0) -> bytes:
    oids = b"".join(oid_of(table).to_bytes(4, "big") for table in tables)
    return struct.pack("!cIB", b"T", len(tables), options) + oids


def frame(message: bytes, start: int = 0) -> memoryview:
    """Wrap a message as the server does."""
    return memoryview(b"w" + start.to_bytes(8, "big") + bytes(16) + message)


def transaction(commit_lsn: int, *messages: bytes) -> list[memoryview]:
    """Make the frames of a whole transaction."""
    return [
        frame(begin(commit_lsn)),
        *map(frame, messages),
        frame(commit(commit_lsn), commit_lsn + 0x30),
    ]


def readable(messages: Sequence[bytes]) -> Mapping[bytes, bytes]:
    """Insist that each change has its table's description before it; return the last of each."""
    described: dict[bytes, bytes] = {}
    for message in messages:
        if message[:1] == b"R":
            described[message[1:5]] = message
        elif message[:1] in (b"I", b"U", b"D"):
            assert message[1:5] in described
        elif message[:1] == b"T":
            assert message[6:] in described
        else:
            assert message[:1] == b"B"
    return described


def _tuple(values: Sequence[Value]) -> bytes:
    return len(values).to_bytes(2, "big") + b"".join(map(_value, values))


def _value(value: Value) -> bytes:
    if value is None:
        return b"n"
    if value == UNCHANGED:
        return b"u"
    text = value.encode() if isinstance(value, str) else value
    return b"t" + len(text).to_bytes(4, "big") + text
