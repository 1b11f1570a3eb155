"""A problem that status tells of."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NAMED", "Problem"]

NAMED = 5
"""Number of tables of a kind that a message names."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that needs a hand."""

    exit_code: int
    #: A word for programs, which stays the same.
    kind: str
    message: str
    hint: str | None = None
    #: What to type, in this order, where that is known word for word.
    commands: tuple[str, ...] = ()
