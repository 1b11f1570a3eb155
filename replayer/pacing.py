"""How long to wait before the next batch. Pure.

A batch costs about the same however little is in it, so under load many changes are applied
together. Changes that are old already, because replication catches up, gain nothing by being
applied at once: the older they are, the more of them are waited for, but no longer than until the
receiver has brought the last of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pgrepl.replayer.settings import ReplaySettings
from pgrepl.store.spool.spool_format import MORE

__all__ = ["Arrivals", "Pause", "bytes_to_hold", "seconds_apart"]

#: From this part of its rows on that would be changed again in the next, a batch is worth growing.
_WORTH = 1 / 8
_GROWTH = 4

#: What stands after the word in a notification; older receivers say no more.
_SIZE = re.compile(r"(?: [0-9]{1,18})?")
#: More receivers than there ever are: another program makes them up.
_MOST_NAMES = 10_000


@dataclass(slots=True)
class Arrivals:
    """What the receivers said since a batch was planned."""

    _with_more: set[str] = field(default_factory=set)
    #: What they wrote, as far as they had more at hand then.
    byte_count: int = 0

    @property
    def has_more(self) -> bool:
        """Whether one of them has more at hand than it has written."""
        return bool(self._with_more)

    def hear(self, news: str) -> None:
        """Take a notification; whoever may connect to the target can send any."""
        name, has_more, size = news.partition(MORE)
        if not has_more:
            self._with_more.discard(name)
        elif _SIZE.fullmatch(size):
            if len(self._with_more) >= _MOST_NAMES:
                self._with_more.clear()
            self._with_more.add(name)
            self.byte_count += int(size or 0)

    def forget(self) -> None:
        """Start over: whatever was written is in a batch."""
        self.byte_count = 0


@dataclass(slots=True)
class Pause:
    """A pause between a least and a greatest number of seconds.

    It takes the longer time only while a receiver has more at hand, and too little has arrived for
    a batch that is worth its price. When that one has brought the last, all there was to wait for
    is there, and the pause is over.
    """

    least_s: float
    most_s: float
    #: So much is worth it.
    enough_bytes: int
    _was_more: bool = False

    def left(self, elapsed_s: float, arrivals: Arrivals) -> float:
        """Return for how long it goes on if nothing is heard; 0 or less: it is over."""
        has_more = arrivals.has_more
        is_catching_up = self.most_s > self.least_s
        if is_catching_up and self._was_more and not has_more:
            return 0.0
        self._was_more = has_more
        is_longer = has_more and arrivals.byte_count < self.enough_bytes
        return (self.most_s if is_longer else self.least_s) - elapsed_s


def bytes_to_hold(held: int, counts: Iterable[tuple[int, int]], settings: ReplaySettings) -> int:
    """Return how much is waited for while a receiver catches up, after what was last.

    ``counts`` are the changes of each table in a batch and the rows that they left to be written.
    A batch as big again would have about as many of these rows in it as there were changes of rows
    that had changed before, at most all: two batches together write them once.
    """
    rows = again = 0
    for change_count, row_count in counts:
        rows += row_count
        again += min(row_count, change_count - row_count)
    if not rows or again < rows * _WORTH:
        return settings.hold_bytes
    return min(held * _GROWTH, settings.chunk_bytes)


def seconds_apart(
    newest: Sequence[datetime], now: datetime, settings: ReplaySettings
) -> tuple[float, float]:
    """Return how far apart two batches begin, at least and at most.

    ``newest`` are the times at which each source committed the last that was applied of it. At most
    is for as long as a receiver has more at hand.
    """
    least = settings.pace_s
    age_s = min((now - at).total_seconds() for at in newest)
    return least, min(max(age_s / 2, least), settings.hold_s)
