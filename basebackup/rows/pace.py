"""How fast rows may be read."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Pace"]

#: Whoever was slower than allowed for a while does not make up for more than this.
_BURST_S = 1.0


class Pace:
    """Keeps whoever spends bytes from spending more of them a second than allowed."""

    def __init__(
        self,
        rate: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin to count, at this number of bytes a second."""
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()

    def spend(self, byte_count: int) -> None:
        """Count bytes, and wait until that many were allowed."""
        now = self._clock()
        self._free_at = max(self._free_at, now - _BURST_S) + byte_count / self._rate
        if self._free_at > now:
            self._sleep(self._free_at - now)
