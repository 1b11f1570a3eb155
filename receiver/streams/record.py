"""A record of a topic, or of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Place", "Record"]

#: Topic and partition; a file is a topic of one.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Record:
    """What was read at one offset."""

    place: Place
    offset: int
    #: The offset of whatever follows it.
    next_offset: int
    key: bytes | None
    value: bytes | None
    #: Microseconds since 1970.
    at_us: int
    headers: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """The topic."""
        return self.place[0]

    @property
    def size(self) -> int:
        """How much memory it takes, roughly."""
        return len(self.key or b"") + len(self.value or b"")
