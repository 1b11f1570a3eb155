"""Where a source stands, for all code that is not of the source's own kind.

A position is an LSN where the source is a PostgreSQL server; a source of another kind may have a
set of offsets. Whoever stores, prints or compares one does only what is here, so that it need not
know which it is.
"""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Position"]


class Position(Protocol):
    """Orders what one source sent; positions of two sources have nothing to do with each other."""

    def __str__(self) -> str:
        """Print it as the source's own tools do."""

    def __lt__(self, other: Any, /) -> bool:  # noqa: ANN401  of the same source
        """Whether it lies before another."""

    def __le__(self, other: Any, /) -> bool:  # noqa: ANN401  as above
        """Whether it does not lie after another."""

    def __gt__(self, other: Any, /) -> bool:  # noqa: ANN401  as above
        """Whether it lies after another."""

    def __ge__(self, other: Any, /) -> bool:  # noqa: ANN401  as above
        """Whether it does not lie before another."""
