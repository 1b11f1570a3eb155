"""Wait for something to become true, instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float = 60) -> T:
    """Return the first true value of the condition, or fail."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.02
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            message = f"still not true after {timeout_s} s: {condition}"
            raise AssertionError(message)
        time.sleep(pause_s)
        # Most conditions ask a server, and the longer it takes the less a moment matters.
        pause_s = min(1.2 * pause_s, 0.1)
