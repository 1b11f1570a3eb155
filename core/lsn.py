"""Positions in PostgreSQL's write-ahead log.

Inside pgrepl an LSN is an integer with a name; its text form ``X/Y`` exists only at the edges:
in SQL, in logs and on the command line.
"""

from __future__ import annotations

import re
from typing import Self

from pgrepl.position import Position

__all__ = ["Lsn", "as_lsn", "end_of_wal"]

_TEXT = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_LIMIT = 1 << 64
_PAGE_BYTES = 8192
#: Lengths of the headers of a WAL page, and of the first one of a file.
_PAGE_HEADERS = (24, 40)


class Lsn(int):
    """A byte position in the write-ahead log, ordered and subtracted like the integer it is.

    >>> Lsn.parse("16/B374D848") < Lsn.parse("16/B374D849")
    True
    >>> str(Lsn(0x16B374D848))
    '16/B374D848'
    """

    __slots__ = ()

    def __new__(cls, value: int) -> Self:
        """Make an LSN of an integer between 0 and 2^64 - 1."""
        if not 0 <= value < _LIMIT:
            message = f"an LSN lies between 0 and 2^64 - 1, not {value}"
            raise ValueError(message)
        return super().__new__(cls, value)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read PostgreSQL's text form, two hexadecimal halves with a slash between."""
        match = _TEXT.fullmatch(text)
        if match is None:
            message = f'"{text}" is not an LSN; PostgreSQL prints one as "16/B374D848"'
            raise ValueError(message)
        return cls(int(match[1], 16) << 32 | int(match[2], 16))

    def __str__(self) -> str:
        """Print the LSN as PostgreSQL does."""
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        """Print the LSN as Python code would make it."""
        return f"Lsn({str(self)!r})"


def as_lsn(position: Position) -> Lsn:
    """Return a position of a PostgreSQL source as what it is."""
    if not isinstance(position, Lsn):
        raise TypeError(f"a position of a PostgreSQL source is an LSN, not {position}")
    return position


def end_of_wal(insert_lsn: int) -> Lsn:
    """Return where the WAL ends when the next record would begin at this position.

    At the end of a page the next record begins after the header of the next page, which is not
    there yet: an idle source would never send so far.
    """
    within = insert_lsn % _PAGE_BYTES
    return Lsn(insert_lsn - within if within in _PAGE_HEADERS else insert_lsn)
