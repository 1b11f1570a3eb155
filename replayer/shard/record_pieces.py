"""How many changes are tried together when some of many are refused.

As many as had none among them so far, on the whole; of those that were refused, one half after the
other, until the one is found. So where every change is refused each is tried once, and where one in
a thousand is, a thousand take a dozen tries.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Pieces"]

#: With more than this of the changes between two that are refused, one of them is likely there.
_SHARE = 0.7


class Pieces:
    """The changes of a table, part after part; what was seen of one part counts for the next."""

    def __init__(self) -> None:
        """Have seen none."""
        self._seen = self._refused = 0

    def run(self, count: int, is_applied: Callable[[int, int], bool]) -> None:
        """Have changes tried, from one number up to another; of one alone it is the end."""
        at, size, successes = 0, count, 0
        #: Up to where one is known to be refused.
        known: int | None = None
        while at < count:
            end = min(at + (size if known is None else max(1, (known - at) // 2)), count)
            if not is_applied(at, end):
                successes = 0
                if end - at > 1:
                    known = end
                    continue
                self._refused += 1
                known = None
            elif known is not None and end < known:
                self._seen += end - at
                at = end
                continue
            else:
                known = None
                successes += 1
            self._seen += end - at
            size = self._size(count)
            if successes > 1:
                size = max(size, 2 * (end - at))
            at = end

    def _size(self, count: int) -> int:
        if not self._refused:
            return count
        return max(1, round(_SHARE * self._seen / self._refused))
