"""Which of the rows that looked different really are, while both sides are written to.

Rounds are read in this order: the rows on the source, a position noted after it, a wait until the
target has passed that position, the rows on the target. A row is a difference when two rounds after
one another found the same version of it on the source (or none), the same version on the target (or
none), and values that differ.

Why that is exact: the source's row did not change from the first round to the second, so a target
that passed the first position must show it by then. Where the source has no row, the target's has
been the same version since before the second reading of the source, while the target has passed the
moment of that reading: it should have gone. A row that is written again, even to the same value,
has another version, and gets another round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["Item", "Pair", "RowState", "Settlement"]

#: The key of a row as texts; of a row without a key its digest.
Item = tuple[str, ...]


class RowState(NamedTuple):
    """A row on one side."""

    value: str
    version: str


class Pair(NamedTuple):
    """A row on both sides; None: it is not there."""

    source: RowState | None
    target: RowState | None

    @property
    def is_equal(self) -> bool:
        """Whether both sides show the same."""
        return (self.source and self.source.value) == (self.target and self.target.value)


class Settlement:
    """The rows of one table that looked different."""

    def __init__(self, items: Iterable[Item]) -> None:
        """Begin with what the first pass found."""
        self._open: dict[Item, Pair | None] = dict.fromkeys(items)
        self.differences: dict[Item, Pair] = {}
        self._reported: set[Pair] = set()

    def add(self, items: Iterable[Item]) -> None:
        """Take in what another pass found."""
        for item in items:
            if item not in self.differences:
                self._open.setdefault(item, None)

    @property
    def open_items(self) -> list[Item]:
        """What is not settled yet."""
        return list(self._open)

    def take_round(self, source: Mapping[Item, RowState], target: Mapping[Item, RowState]) -> None:
        """Judge what one round found."""
        for item, before in list(self._open.items()):
            pair = Pair(source.get(item), target.get(item))
            if pair.is_equal:
                del self._open[item]
            elif pair == before:
                del self._open[item]
                # Keys that print differently and are equal lead to the same rows.
                if pair not in self._reported:
                    self._reported.add(pair)
                    self.differences[item] = pair
            else:
                self._open[item] = pair
