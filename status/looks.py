"""Looking at sources again and again: how fast they write, and none is asked twice at once."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from functools import partial

from pgrepl.background import BackgroundCall
from pgrepl.config.model import SourceConfig
from pgrepl.errors import PgreplError
from pgrepl.lsn import Lsn
from pgrepl.status.facts import SourceFacts
from pgrepl.status.source_facts import read_source

__all__ = ["Looks"]

#: The span over which the rate of WAL is computed, as far as looks go back.
_WINDOW = timedelta(minutes=5)

#: What is written in less time than this says little.
_LEAST_S = 1.0


class Looks:
    """What earlier looks found; use it from one thread."""

    def __init__(self) -> None:
        """Begin without any."""
        self._pending: dict[str, BackgroundCall[SourceFacts]] = {}
        self._positions: dict[str, deque[tuple[datetime, Lsn]]] = {}

    def begin(self, source: SourceConfig) -> BackgroundCall[SourceFacts]:
        """Ask a source, unless the last question is still not answered."""
        reading = self._pending.get(source.name)
        if reading is None or reading.wait(0):
            reading = BackgroundCall(partial(read_source, source))
            self._pending[source.name] = reading
        return reading

    def wal_rate(self, name: str, answer: SourceFacts | PgreplError) -> float | None:
        """Return the WAL per second of the last minutes; None after too short a time."""
        if isinstance(answer, PgreplError) or answer.lsn is None:
            return None
        seen = self._positions.setdefault(name, deque())
        if seen and (answer.clock_at < seen[-1][0] or answer.lsn < seen[-1][1]):
            # Another server, or its clock was set.
            seen.clear()
        seen.append((answer.clock_at, answer.lsn))
        while len(seen) > 1 and seen[1][0] <= answer.clock_at - _WINDOW:
            seen.popleft()
        first_at, first_lsn = seen[0]
        seconds = (answer.clock_at - first_at).total_seconds()
        return (answer.lsn - first_lsn) / seconds if seconds >= _LEAST_S else None
