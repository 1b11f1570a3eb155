"""What becomes of a change of a table that is copied in chunks. Pure.

A chunk is a range of keys as one snapshot of the source shows it, put into the table between two
transactions of the stream. Of a transaction that comes later in the stream the chunk may contain
the changes already; the snapshot tells exactly, a position in the WAL does not.

So a key is, for a transaction, in one of three zones. A change within one zone is easy. A row that
moves into another zone is taken apart: its old key is deleted in the one, and it is new in the
other, where the change has all of its columns. Where it does not, because a value that is stored
out of line did not change, the row that had the value may be older or newer here than the change
takes it to be. Such a key is read again from the source.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, TypeVar

from pgrepl.decoding.changes import DELETE, INSERT

__all__ = ["Division", "Step", "Zone", "divide"]

_Change = TypeVar("_Change")


class Zone(Enum):
    """Where a key is, as seen by one transaction."""

    #: The table has the row exactly as it is before the transaction.
    EXACT = "exact"
    #: A chunk has put the row there as it is after the transaction, or later.
    AHEAD = "ahead"
    #: Not copied yet, or to be read again: whatever is there will be replaced.
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Step(Generic[_Change]):
    """A change of one row."""

    action: bytes
    #: The key of the row before, and after; None where there is none.
    old: Hashable | None
    new: Hashable | None
    #: Whether it has all columns of the new row.
    is_full: bool
    #: Whatever the caller knows it by.
    change: _Change


@dataclass(slots=True)
class Division(Generic[_Change]):
    """What is left to do of some changes, in order; of different zones are different keys."""

    exact: list[Step[_Change]] = field(default_factory=list)
    #: Rows that these need may be missing, and rows may stand in their way.
    open: list[Step[_Change]] = field(default_factory=list)
    #: Keys to read again, each with the place of the step that asks for it.
    reread: dict[Hashable, int] = field(default_factory=dict)

    def add(self, zone: Zone, step: Step[_Change]) -> None:
        """Add what is left of a change."""
        if zone is Zone.EXACT:
            self.exact.append(step)
        elif zone is Zone.OPEN:
            self.open.append(step)


def divide(
    steps: Iterable[Step[_Change]], zone_of: Callable[[int, Hashable], Zone]
) -> Division[_Change]:
    """Divide changes by zone; ``zone_of`` is asked with the place of a step and one of its keys."""
    division: Division[_Change] = Division()

    def zone(place: int, key: Hashable) -> Zone:
        found = zone_of(place, key)
        # What was asked for by a change before this one is not there yet.
        return Zone.OPEN if found is Zone.EXACT and key in division.reread else found

    for place, step in enumerate(steps):
        if step.old is None:
            division.add(zone(place, step.new), step)
        elif step.new is None or step.new == step.old:
            division.add(zone(place, step.old), step)
        else:
            before, after = zone(place, step.old), zone(place, step.new)
            if before is after is not Zone.OPEN:
                division.add(before, step)
                continue
            division.add(before, replace(step, action=DELETE, new=None))
            if after is Zone.AHEAD:
                continue
            if step.is_full:
                division.add(after, replace(step, action=INSERT, old=None))
            else:
                division.reread.setdefault(step.new, place)
    return division
