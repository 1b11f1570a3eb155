"""A record of a topic, or of a file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from pgrepl.decoding.records.serialized import Datum

__all__ = ["Part", "Place", "Record"]

#: Topic and partition; a file is a topic of one.
Place = tuple[str, int]

#: A key or a value: as bytes, or read already by whoever read the file that it was in.
Part = bytes | Datum | None


_NO_HEADERS: Mapping[str, bytes] = MappingProxyType({})


class Record(NamedTuple):
    """What was read at one offset."""

    place: Place
    offset: int
    #: The offset of whatever follows it.
    next_offset: int
    key: Part
    value: Part
    #: Microseconds since 1970.
    at_us: int
    headers: Mapping[str, bytes] = _NO_HEADERS
    #: Why nothing can be read of it, if that is known already.
    problem: str | None = None
    #: The size of what was read already.
    read_bytes: int = 0

    @property
    def topic(self) -> str:
        """The topic."""
        return self.place[0]

    @property
    def size(self) -> int:
        """How much memory it takes, roughly."""
        return self.read_bytes + sum(
            len(part) for part in (self.key, self.value) if isinstance(part, bytes)
        )
