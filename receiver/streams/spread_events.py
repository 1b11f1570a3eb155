"""Events without a key in topics of several partitions, each once.

Whoever writes them gives them to any partition, and one that is sent again to another: positions
within a partition do not tell that. Its transaction and its number there do. What is kept of a
transaction is a bit for each event, until its end has come; after that all of its events were
there, of topics that were received by then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pgrepl.decoding.debezium.event import Event
from pgrepl.receiver.routing import TableName

__all__ = ["SpreadEvents", "name_in_topics"]

_SINCE = "since_end"
_TABLE = "table"
#: Of a topic whose state does not say it: all of its transactions are older.
_NEVER = 1 << 64
_PAGE_BITS = 1024
#: What Debezium replaces in the names of topics.
_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")


class SpreadEvents:
    """Which of them came, of every topic."""

    def __init__(self) -> None:
        """Know none."""
        #: By topic and transaction: a bit for each number, by pages of them.
        self._seen: dict[tuple[str, int | None, int], dict[int, int]] = {}
        #: The end after which a topic was received from its first event on.
        self._since: dict[str, int] = {}
        self._new: set[str] = set()
        #: The tables of topics that are not named after them.
        self.tables: dict[str, TableName] = {}

    def restore(self, topic: str, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take of a partition's state what is kept here, and return the rest."""
        if not state:
            self._new.add(topic)
            return state
        # Of partitions that were written at different times the newest is right.
        since = int(state.get(_SINCE, _NEVER))
        self._since[topic] = max(self._since.get(topic, 0), since)
        if _TABLE in state:
            schema, table = state[_TABLE]
            self.tables[topic] = (schema, table)
        return {name: own for name, own in state.items() if name not in (_SINCE, _TABLE)}

    def state_of(self, topic: str) -> Mapping[str, Any]:
        """Return what is to be kept with each partition."""
        state: dict[str, Any] = {_SINCE: self._since.get(topic, _NEVER)}
        if topic in self.tables:
            state[_TABLE] = list(self.tables[topic])
        return state

    def begin(self, last_end: int) -> None:
        """Take it that topics which are new are received from here on."""
        for topic in self._new:
            self._since.setdefault(topic, last_end)
        self._new.clear()

    def begin_late(self, topic: str, table: TableName, last_end: int) -> None:
        """Take note of the table of a topic, which ends did not wait for before."""
        self.tables[topic] = table
        self._since[topic] = max(self._since.get(topic, 0), last_end)

    def is_new(self, topic: str, event: Event, last_end: int) -> bool:
        """Whether an event of a transaction did not come before, in whatever partition."""
        if event.order is None:
            return True
        if self._since.get(topic, _NEVER) <= event.start < last_end:
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


def name_in_topics(name: TableName) -> str:
    """Return a table's name as it is at the end of its topic's.

    >>> name_in_topics(("public", "my orders"))
    'public.my_orders'
    """
    return _NOT_IN_TOPICS.sub("_", ".".join(name))
