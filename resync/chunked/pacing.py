"""How big the next chunk is. Pure."""

from __future__ import annotations

__all__ = ["next_limit"]

#: Changes of the table wait for as long as a chunk takes.
_SECONDS = 0.25
_LEAST = 100
_MOST = 50_000


def next_limit(limit: int, row_count: int, seconds: float) -> int:
    """Return how many rows the next chunk may have.

    >>> next_limit(1000, 1000, 0.05)
    2000
    >>> next_limit(1000, 1000, 1.0)
    500
    """
    if row_count < limit or seconds <= 0:
        return limit
    factor = min(max(_SECONDS / seconds, 0.5), 2.0)
    return min(max(int(limit * factor), _LEAST), _MOST)
