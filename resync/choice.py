"""Whether a table is copied as a whole or in chunks. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pgrepl.errors import UsageError
from pgrepl.store.resync.running_resyncs import Way

__all__ = ["Choice", "TableFacts", "WayAsked", "choose_way"]

WayAsked = Literal["auto", "whole", "chunked"]

#: From this size on a table is copied in chunks where that is possible: a snapshot of the whole
#: would be held for minutes, its changes would wait as long, and a kill would lose all of it.
_LARGE_BYTES = 4 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What the choice goes by."""

    name: str
    #: On the source, with long values.
    size_bytes: int
    #: Whether the target has no copy of the table yet.
    is_first: bool
    #: Whether the copy is whole and its changes are applied; else what it shows is old already.
    is_live: bool
    #: Why it cannot be copied in chunks; None: it can.
    chunk_obstacle: str | None
    #: In which way an earlier run began; None: none did.
    begun: Way | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The way, and why."""

    way: Way
    reason: str


def choose_way(facts: TableFacts, asked: WayAsked = "auto") -> Choice:
    """Return how a table is copied.

    Raises
    ------
    UsageError
        when it cannot be copied in the way asked for.

    """
    obstacle = facts.chunk_obstacle
    if obstacle is None and not facts.is_live and not facts.is_first:
        obstacle = "its changes are not applied, and chunks go into a table that is live"
    if asked == "chunked" and obstacle is not None:
        raise UsageError(
            f"table {facts.name} cannot be copied in chunks: {obstacle}",
            hint="Leave --way out, or use --way whole.",
        )
    if asked != "auto":
        return Choice(asked, "asked for")
    if obstacle is not None:
        return Choice("whole", obstacle)
    if facts.begun is not None:
        return Choice(facts.begun, "an earlier run began so")
    if facts.size_bytes < _LARGE_BYTES:
        return Choice("whole", "it is small")
    if facts.is_first:
        return Choice("chunked", "it is large, and a kill must not cost all of it")
    return Choice("chunked", "it is large, and stays live meanwhile")
