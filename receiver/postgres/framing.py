"""How the server wraps the messages of an output plugin, on each of the two ways to read a slot."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["COPY_HEADER_BYTES", "COPY_ROW", "COPY_TRAILER_BYTES", "XLOG_DATA_FRAME", "Framing"]


class Framing(NamedTuple):
    """Where in a frame things stand."""

    #: The message is what follows so many bytes.
    header_bytes: int
    #: The message's position, which for a commit is the end of its transaction.
    lsn_at: slice


#: Streamed: a tag, where the data starts, the end of WAL, the time.
XLOG_DATA_FRAME: Final = Framing(25, slice(1, 9))

#: Pulled: a row of two columns in COPY's binary format, each after its length.
COPY_ROW: Final = Framing(18, slice(6, 14))

#: What stands before the first row of a COPY in binary format, and all that follows the last one.
COPY_HEADER_BYTES: Final = 19
COPY_TRAILER_BYTES: Final = 2
