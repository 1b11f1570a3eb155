"""Events without a key in topics of several partitions, each once.

Whoever writes them gives them to any partition, and one that is sent again to another: positions
within a partition do not tell that. Its transaction and its number there do. What is kept of a
transaction is a bit for each event, until its end has come; after that all of its events were
there, of topics that were received by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgrepl.decoding.debezium.event import Event

__all__ = ["SpreadEvents"]

_SINCE = "since_end"
#: Of a topic whose state does not say it: all of its transactions are older.
_NEVER = 1 << 64
_PAGE_BITS = 1024


class SpreadEvents:
    """Which of them came, of every topic."""

    def __init__(self) -> None:
        """Know none."""
        #: By topic and transaction: a bit for each number, by pages of them.
        self._seen: dict[tuple[str, int | None, int], dict[int, int]] = {}
        #: The end after which a topic was received from its first event on.
        self._since: dict[str, int] = {}
        self._new: set[str] = set()

    def restore(self, topic: str, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take of a partition's state what is kept here, and return the rest."""
        if not state:
            self._new.add(topic)
            return state
        self._since[topic] = int(state.get(_SINCE, _NEVER))
        return {name: own for name, own in state.items() if name != _SINCE}

    def state_of(self, topic: str) -> Mapping[str, Any]:
        """Return what is to be kept with each partition."""
        return {_SINCE: self._since.get(topic, _NEVER)}

    def begin(self, last_end: int) -> None:
        """Take it that topics which are new are received from here on."""
        for topic in self._new:
            self._since.setdefault(topic, last_end)
        self._new.clear()

    def is_new(self, topic: str, event: Event, last_end: int) -> bool:
        """Whether an event of a transaction did not come before, in whatever partition."""
        if event.order is None:
            return True
        if self._since.get(topic, _NEVER) <= event.last_commit < last_end and event.last_commit:
            # Its transaction is whole.
            return False
        pages = self._seen.setdefault((topic, event.xid, event.last_commit), {})
        page, number = divmod(event.order, _PAGE_BITS)
        before = pages.get(page, 0)
        pages[page] = before | 1 << number
        return pages[page] != before

    def end(self, last_end: int) -> None:
        """Forget transactions that are whole."""
        gone = [own for own in self._seen if own[2] < last_end]
        for own in gone:
            del self._seen[own]
