r"""The spool format, which the receiver writes and the replayer reads.

A **segment** is what one receiver commit put into ``replication.raw_messages``: a run of whole
source transactions, numbered by ``seq``. Its rows are **parts**; the lines of one table always fall
into one **bucket**. A payload is the messages of the source's output plugin as the bytes they came
in, or what gives these bytes back, in the encoding of the source; ``format`` and ``encoding`` of
its row say how to read it, see ``pgrepl.decoding``. The begin message of a transaction stands
before its first change, in every payload again, so that each payload can be read alone.

A ``serial`` segment is one transaction with DDL (inserts into ``pgrepl.ddl_log``) or TRUNCATE. All
its parts have bucket -1; read in order of ``part`` they are one stream. From the first DDL or
TRUNCATE on that is the order of the source; before it only the lines of one table are sure to be in
order.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from pgrepl.config.model import BUCKET_COUNT
from pgrepl.lsn import Lsn

__all__ = [
    "CHANNEL",
    "DDL_TABLE",
    "MORE",
    "PAYLOAD_LIMIT",
    "SERIAL_BUCKET",
    "SegmentKind",
    "SpoolPart",
    "bucket_of",
    "checksum",
    "microseconds",
]

SegmentKind = Literal["parallel", "serial"]

#: The bucket of every part of a serial segment.
SERIAL_BUCKET = -1

#: Where the event triggers on the source write what DDL they saw.
DDL_TABLE = ("pgrepl", "ddl_log")

#: ``NOTIFY`` goes here after each commit, the source's name with it.
CHANNEL = "pgrepl_spool"
#: Follows the source's name in a notification while the receiver has more at hand; after it comes
#: how many bytes were committed.
MORE = " more"

#: PostgreSQL stores no value of 1 GiB, and lz4 wants to have 1/255 more than that at hand.
PAYLOAD_LIMIT = 1_069_000_000

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime.fromisoformat("2000-01-01 00:00:00+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolPart:
    """One row of ``replication.raw_messages``, without its source."""

    seq: int
    bucket: int
    part: int
    kind: SegmentKind
    first_lsn: Lsn
    last_lsn: Lsn
    #: Microseconds since 2000, as PostgreSQL stores a timestamp.
    first_commit_at: int
    last_commit_at: int
    change_count: int
    #: Whether no part of the segment follows.
    is_last: bool
    #: How the payload is read; None: as the session says of all that it writes.
    format: str | None = None
    #: The payload in pieces; big lines are never copied together.
    payload: Sequence[bytes]


def bucket_of(db: str, schema: str, table: str) -> int:
    """Return the bucket of a table; for a partition, ask with the name of its root.

    >>> bucket_of("shop", "public", "orders")
    22
    """
    digest = hashlib.md5(f"{db}/{schema}/{table}".encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big") % BUCKET_COUNT


def checksum(payload: Iterable[bytes]) -> int:
    """Return the CRC-32 of a payload that is given in pieces, as PostgreSQL's integer.

    >>> checksum([b"a payload"]) == checksum([b"a pay", b"load"])
    True
    >>> checksum([b"a payload"]) == checksum([b"a paylOad"])
    False
    """
    crc = 0
    for piece in payload:
        crc = zlib.crc32(piece, crc)
    return crc - ((crc & 0x80000000) << 1)


def microseconds(timestamp: str) -> int:
    """Return a timestamp that PostgreSQL printed as microseconds since 2000.

    >>> microseconds("2000-01-01 00:00:01.5+00")
    1500000
    """
    return (datetime.fromisoformat(timestamp) - _EPOCH) // _MICROSECOND
