"""What there is of a source, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pgrepl.config.dsn import Side
from pgrepl.errors import PgreplError

__all__ = ["DropReport", "Item", "Outcome", "Survey"]

Outcome = Literal["found", "removed", "kept"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that pgrepl made, or might have made."""

    side: Side
    kind: str
    name: str
    outcome: Outcome
    #: Why it is kept.
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is to remove, before anybody is asked."""

    source: str
    items: Sequence[Item]
    #: Why a side could not be looked at.
    errors: Sequence[PgreplError] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove, as far as can be seen."""
        return not self.errors and all(item.outcome == "kept" for item in self.items)


@dataclass(slots=True)
class DropReport:
    """What was removed, what was kept, and what a later run has still to do."""

    source: str
    items: list[Item] = field(default_factory=list)
    #: Why a side could not be cleared.
    errors: list[PgreplError] = field(default_factory=list)

    def removed(self, side: Side, kind: str, *names: str) -> None:
        """Note what is removed."""
        self.items += [Item(side, kind, name, "removed") for name in names]

    def kept(self, side: Side, kind: str, reason: str, *names: str) -> None:
        """Note what stays, and why."""
        self.items += [Item(side, kind, name, "kept", reason) for name in names]
