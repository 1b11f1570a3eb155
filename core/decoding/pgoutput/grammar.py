"""The messages of pgoutput that the spool keeps, read as the bytes they are.

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

A relation message says of an oid which table it is and which columns its tuples have, until another
one of the same oid comes. All texts are in the encoding of the source: the session that decodes has
that as its ``client_encoding``, so that the server converts nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pgrepl.decoding.changes import unreadable
from pgrepl.decoding.payload import Begin, RecordPlace
from pgrepl.postgres.foreign_names import decode_name

__all__ = [
    "BEGIN",
    "BEGIN_BYTES",
    "DELETE",
    "INSERT",
    "KEY",
    "NEW",
    "OID",
    "RECORD",
    "RELATION",
    "TRUNCATE",
    "TUPLE_AT",
    "UNCHANGED",
    "UPDATE",
    "WHICH_AT",
    "Relation",
    "Tuple",
    "oid_of",
    "old_tuple_at",
    "read_begin",
    "read_position",
    "read_records",
    "read_relation",
    "read_truncate",
    "read_tuple",
    "single_truncate",
    "truncate_options",
]

#: The first byte of a message says what it is.
BEGIN: Final = ord("B")
RELATION: Final = ord("R")
INSERT: Final = ord("I")
UPDATE: Final = ord("U")
DELETE: Final = ord("D")
TRUNCATE: Final = ord("T")

#: Where the oid of a change's table stands, and of a relation message's.
OID = slice(1, 5)
#: Where a change says which tuple follows, and the tuple.
WHICH_AT = 5
TUPLE_AT = 6
#: Which one: the new row; all other are of the old row, its key or the whole of it.
NEW: Final = ord("N")
KEY: Final = ord("K")

BEGIN_BYTES = 21
_BEGIN = struct.Struct("!cQqI")
#: After the begin message of what was records, for each: offset, partition, and a topic's size.
RECORD = struct.Struct("!qiH")
#: Number of relations, options; then their oids.
_TRUNCATE = struct.Struct("!cIB")
_OID_BYTES = 4

_IS_KEY = 1
_TEXT: Final = ord("t")
_NULL: Final = ord("n")
_SKIPPED: Final = ord("u")

#: Stands for a value that is unchanged and stored out of line; no text is this object.
UNCHANGED: Final = b"\0 unchanged"
#: Texts as the source printed them, None for a null, ``UNCHANGED``.
Tuple = list[bytes | None]

_EPOCH = datetime.fromisoformat("2000-01-01 00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class Relation:
    """What a relation message says."""

    schema: str
    table: str
    columns: tuple[str, ...]
    #: The columns of the replica identity; all of them when that is the whole row.
    identity: tuple[str, ...]

    @property
    def name(self) -> tuple[str, str]:
        """Schema and table on the source."""
        return self.schema, self.table


def read_position(begin: bytes) -> tuple[int, int]:
    """Return only xid and commit LSN of a begin message."""
    xid, _, commit_lsn = _read_begin(begin)
    return xid, commit_lsn


def _read_begin(message: bytes) -> tuple[int, int, int]:
    if len(message) < BEGIN_BYTES or message[0] != BEGIN:
        raise unreadable("a transaction's begin cannot be read")
    _, commit_lsn, at, xid = _BEGIN.unpack_from(message)
    return xid, at, commit_lsn


def read_begin(message: bytes) -> Begin:
    """Read a begin message."""
    xid, at, commit_lsn = _read_begin(message)
    try:
        commit_at = _EPOCH + timedelta(microseconds=at)
    except OverflowError as exc:
        raise unreadable("a transaction's begin cannot be read") from exc
    records = read_records(message)
    return Begin(xid, commit_at.isoformat(" ").removesuffix(":00"), commit_lsn, records)


def read_records(begin: bytes) -> tuple[RecordPlace, ...]:
    """Return which records the first change after a begin message was made of."""
    found: list[RecordPlace] = []
    at = BEGIN_BYTES
    while at < len(begin):
        end = at + RECORD.size
        try:
            offset, partition, size = RECORD.unpack_from(begin, at)
            topic = begin[end : end + size].decode()
        except (struct.error, UnicodeDecodeError) as exc:
            raise unreadable("a transaction's begin cannot be read") from exc
        at = end + size
        found.append(RecordPlace(topic, partition, offset))
    if at != len(begin):
        raise unreadable("a transaction's begin cannot be read")
    return tuple(found)


def read_relation(message: bytes, codec: str) -> Relation:
    """Read a relation message.

    Raises
    ------
    SpoolError
        when it cannot be read.

    """
    try:
        return _read_relation(message, codec)
    except (ValueError, IndexError) as exc:
        raise unreadable("the description of a table cannot be read") from exc


def _read_relation(message: bytes, codec: str) -> Relation:
    schema, at = _string(message, OID.stop)
    table, at = _string(message, at)
    # Which replica identity it is does not matter, only which columns it has.
    at += 1
    count = int.from_bytes(message[at : at + 2])
    at += 2
    columns: list[str] = []
    identity: list[str] = []
    for _ in range(count):
        is_key = message[at] & _IS_KEY
        name, at = _string(message, at + 1)
        # The oid of the type and its modifier.
        at += 8
        columns.append(decode_name(name, codec))
        if is_key:
            identity.append(columns[-1])
    if at != len(message):
        raise ValueError("it has another length")
    # Tables of pg_catalog have an empty schema here.
    schema_name = decode_name(schema, codec) or "pg_catalog"
    return Relation(schema_name, decode_name(table, codec), tuple(columns), tuple(identity))


def old_tuple_at(message: bytes) -> int | None:
    """Return where the tuple of a change's old row begins; None: it has only the new one."""
    return None if message[WHICH_AT] == NEW else TUPLE_AT


def read_tuple(message: bytes, at: int) -> tuple[Tuple, int]:
    """Read the tuple that begins here; return where it ends too."""
    count = int.from_bytes(message[at : at + 2])
    at += 2
    values: Tuple = []
    for _ in range(count):
        kind = message[at] if at < len(message) else 0
        if kind == _TEXT:
            start = at + 5
            at = start + int.from_bytes(message[at + 1 : start])
            values.append(message[start:at])
        elif kind == _NULL:
            values.append(None)
            at += 1
        elif kind == _SKIPPED:
            values.append(UNCHANGED)
            at += 1
        else:
            raise unreadable("a value in a change cannot be read")
    if at > len(message):
        raise unreadable("a change is too short")
    return values, at


def read_truncate(message: bytes) -> tuple[int, Sequence[bytes]]:
    """Return the options of a TRUNCATE, and the oids of its tables."""
    size = _TRUNCATE.size
    if len(message) < size:
        raise unreadable("a TRUNCATE cannot be read")
    _, count, options = _TRUNCATE.unpack_from(message)
    if len(message) != size + count * _OID_BYTES:
        raise unreadable("a TRUNCATE cannot be read")
    return options, [message[at : at + _OID_BYTES] for at in range(size, len(message), _OID_BYTES)]


def single_truncate(options: int, oid: bytes) -> bytes:
    """Make the TRUNCATE of one table."""
    return _TRUNCATE.pack(b"T", 1, options) + oid


def oid_of(change: bytes) -> bytes:
    """Return the oid of a change's table; a TRUNCATE is of one table."""
    return change[_TRUNCATE.size :] if change[0] == TRUNCATE else change[OID]


def truncate_options(truncate: bytes) -> int:
    """Return the options of the TRUNCATE of one table."""
    return truncate[_TRUNCATE.size - 1]


def _string(message: bytes, at: int) -> tuple[bytes, int]:
    """Return the text that begins here and ends before a zero byte, and where the next begins."""
    end = message.index(0, at)
    return message[at:end], end + 1
