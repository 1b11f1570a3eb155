"""How a payload holds messages: their number, the size of each, and then all of them.

Numbers have four bytes, the most significant first. With the sizes at hand a payload is cut up
without looking at a single message.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise

from pgrepl.decoding.changes import unreadable

__all__ = ["pack", "pack_pieces", "unpack"]

_NUMBER_BYTES = 4
#: Messages longer than this are handed on as they are; shorter ones are joined to one piece.
_BIG_BYTES = 1 << 20


def pack(messages: Sequence[bytes]) -> bytes:
    """Return messages as a payload.

    >>> pack([b"B", b"Ix"]).hex(" ", 4)
    '00000002 00000001 00000002 424978'
    """
    return b"".join((_head(messages), *messages))


def pack_pieces(messages: Sequence[bytes]) -> Sequence[bytes]:
    """Return messages as a payload in pieces, without copying the big ones."""
    if max(map(len, messages)) < _BIG_BYTES:
        return (pack(messages),)
    return (_head(messages), *messages)


def unpack(payload: bytes) -> list[bytes]:
    """Return the messages of a payload.

    Raises
    ------
    SpoolError
        when it is not one.

    """
    count = int.from_bytes(payload[:_NUMBER_BYTES])
    start = _NUMBER_BYTES * (count + 1)
    if start > len(payload):
        raise unreadable("a payload is too short")
    sizes = struct.unpack_from(f"!{count}I", payload, _NUMBER_BYTES)
    ends = list(accumulate(sizes, initial=start))
    if ends[-1] != len(payload) or not all(sizes):
        raise unreadable("a payload is not as long as its messages")
    return [payload[at:end] for at, end in pairwise(ends)]


def _head(messages: Sequence[bytes]) -> bytes:
    count = len(messages)
    return struct.pack(f"!{count + 1}I", count, *map(len, messages))
