"""The frames of PostgreSQL's streaming replication protocol, and of COPY, as bytes.

The server wraps plugin output in XLogData frames and sends keepalives between them; the client
answers with status updates. https://www.postgresql.org/docs/current/protocol-replication.html
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn

__all__ = [
    "COPY_HEADER_BYTES",
    "COPY_ROW_FRAMING",
    "COPY_TRAILER_BYTES",
    "KEEPALIVE",
    "XLOG_DATA",
    "XLOG_DATA_FRAMING",
    "Framing",
    "Keepalive",
    "decode_keepalive",
    "encode_status",
]

XLOG_DATA: Final = ord("w")
KEEPALIVE: Final = ord("k")


class Framing(NamedTuple):
    """Where things stand in what brings a message of the output plugin."""

    #: Comes before the message.
    header_bytes: int
    #: Where the message stands in the write-ahead log; a commit stands at its end.
    lsn_at: slice
    #: What the frame begins with, where there are also other frames; 0: there are not.
    tag: int = 0


#: An XLogData frame: its tag, where the data starts, the end of WAL, the time.
XLOG_DATA_FRAMING: Final = Framing(25, slice(1, 9), XLOG_DATA)

#: A row of position and message in COPY's binary format: each column after its length.
COPY_ROW_FRAMING: Final = Framing(18, slice(6, 14))

#: What stands before the first row of a COPY in binary format, and all that follows the last one.
COPY_HEADER_BYTES: Final = 19
COPY_TRAILER_BYTES: Final = 2

_KEEPALIVE = struct.Struct("!cQqB")
_STATUS = struct.Struct("!cQQQqB")


class Keepalive(NamedTuple):
    """What the server says while it has nothing to send."""

    #: Everything that committed before it was sent already, unless a transaction is being sent.
    wal_end: Lsn
    is_reply_requested: bool


def decode_keepalive(frame: memoryview) -> Keepalive:
    """Read a keepalive frame."""
    if len(frame) != _KEEPALIVE.size or frame[0] != KEEPALIVE:
        raise SpoolError(f"the source sent a frame of {len(frame)} bytes that is no keepalive")
    _, wal_end, _, is_reply_requested = _KEEPALIVE.unpack(frame)
    return Keepalive(Lsn(wal_end), bool(is_reply_requested))


def encode_status(*, received: int, flushed: int, at: int, wants_reply: bool = False) -> bytes:
    """Make a standby status update; ``at`` is in microseconds since 2000.

    The server forgets whatever lies before ``flushed``: it must be durable on the target.
    """
    return _STATUS.pack(b"r", max(received, flushed), flushed, flushed, at, wants_reply)
