"""The history as the page asks for it: a few ranges, each read once in a while."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import UsageError
from pgrepl.status.history import history_as_json, read_past
from pgrepl.terminal import json_text

__all__ = ["RANGES", "Past"]

#: What can be asked for.
RANGES = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "14d": timedelta(days=14),
}

#: How long what was read is good for.
_FRESH_S = 5.0


class Past:
    """Reads the history on the target, by one request at a time."""

    def __init__(self) -> None:
        """Begin without any."""
        self._lock = threading.Lock()
        self._read: dict[str, tuple[float, str]] = {}

    def as_json(self, target: Endpoint, since: str) -> str:
        """Return how all sources fared.

        Raises
        ------
        UsageError
            when it is no range that can be asked for.
        TargetError
            when the target does not answer.

        """
        if since not in RANGES:
            raise UsageError(f"since must be one of {', '.join(RANGES)}")
        with self._lock:
            read_at, text = self._read.get(since, (float("-inf"), ""))
            if time.monotonic() - read_at > _FRESH_S:
                text = json_text(history_as_json(read_past(target, RANGES[since])))
                self._read[since] = (time.monotonic(), text)
            return text
