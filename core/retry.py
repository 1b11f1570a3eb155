"""How long to wait before what failed is tried again."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Backoff"]

#: Doubled more often than this, every pause is beyond every limit; and 2.0 ** 1024 is no float.
_DOUBLINGS = 64


@dataclass(slots=True)
class Backoff:
    """Pauses that double from failure to failure, up to a limit."""

    first_s: float
    limit_s: float
    #: How often it failed since it last succeeded.
    failure_count: int = 0

    def fail(self) -> float:
        """Count a failure, and return how long to wait after it."""
        pause_s = self.first_s * 2.0 ** min(self.failure_count, _DOUBLINGS)
        self.failure_count += 1
        return min(pause_s, self.limit_s)

    def succeed(self) -> None:
        """Begin with the shortest pause again."""
        self.failure_count = 0
