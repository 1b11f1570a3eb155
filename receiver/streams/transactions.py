"""Debezium's events with its transaction topic: whole transactions, in the order of their commits.

The topic says at each transaction's end how many events of each table it has. Until all of them are
there they wait, wherever they come from; then all of them are gathered at once, so that no batch
ends inside a transaction. Ends rise from transaction to transaction: one that came before is told
by that alone.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgrepl.decoding.debezium.duplicates import Newest
from pgrepl.decoding.debezium.event import TransactionEnd, read_end
from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.serialized import Reader
from pgrepl.decoding.records.values import BadValue
from pgrepl.errors import SourceError, TargetError
from pgrepl.lsn import Lsn
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.changes import Gathered
from pgrepl.receiver.streams.debezium import Change
from pgrepl.receiver.streams.debezium_exact import DebeziumExact
from pgrepl.receiver.streams.envelope import read_value, table_of
from pgrepl.receiver.streams.layouts import Layouts, TableMissingError
from pgrepl.receiver.streams.record import Place, Record

__all__ = ["DebeziumTransactions"]

logger = logging.getLogger(__name__)

#: A partition that has so much waiting for other transactions is not read on.
_FULL_BYTES = 16 << 20
#: So many ends are remembered, for events of topics that were found late.
_RECENT = 1000
#: Where all events of a transaction are folded, wherever they came from.
_TOGETHER: Place = ("", 0)


@dataclass(frozen=True, slots=True)
class _Item:
    """A record that waits; without an event it could not be read, and only counts."""

    record: Record
    change: Change | None
    #: What was known of its partition before it.
    before: Newest

    def is_of(self, end: TransactionEnd) -> bool:
        """Whether it may be in a transaction."""
        if self.change is None:
            return True
        event = self.change.event
        return event.order is not None and event.xid == end.xid and event.last_commit < end.lsn


class DebeziumTransactions(DebeziumExact):
    """Every event once, and with all others of its transaction."""

    def __init__(
        self, reader: Reader, layouts: Layouts, placeholder: Placeholder, topic: str
    ) -> None:
        """Know nothing yet; ``topic`` is the transaction topic."""
        super().__init__(reader, layouts, placeholder)
        self._topic = topic
        self._queues: dict[Place, deque[_Item]] = {}
        self._bytes: Counter[Place] = Counter()
        self._ends: deque[tuple[Place, int, TransactionEnd]] = deque()
        self._last_end = 0
        self._recent: OrderedDict[int, None] = OrderedDict()
        self._bad: list[tuple[Record, str]] = []

    def restore(self, place: Place, state: Mapping[str, Any], partition_count: int) -> None:
        """Go on from what was kept."""
        if place[0] != self._topic:
            super().restore(place, state, partition_count)
            self._queues[place] = deque()
            return
        if partition_count > 1:
            raise SourceError(
                f'transaction topic "{self._topic}" has {partition_count} partitions, so that the'
                " order of transactions is unknown",
                hint="Make it with one partition.",
            )
        self._last_end = int(state.get("end_lsn", 0))

    def state_of(self, place: Place) -> Mapping[str, Any]:
        """Return what was known before the first event that waits."""
        if place[0] == self._topic:
            return {"end_lsn": self._last_end}
        queue = self._queues[place]
        return (queue[0].before if queue else self._newest[place]).dump()

    def first_waiting(self, place: Place) -> int | None:
        """Return the offset of the first record that waits."""
        if place[0] == self._topic:
            return self._ends[0][1] if self._ends else None
        queue = self._queues[place]
        return queue[0].record.offset if queue else None

    def is_full(self, place: Place) -> bool:
        """Whether enough of a partition waits, and not for itself."""
        queue = self._queues.get(place)
        if not queue or self._bytes[place] < _FULL_BYTES:
            return False
        return not (self._ends and queue[0].is_of(self._ends[0][2]))

    def take_bad(self) -> Sequence[tuple[Record, str]]:
        """Return records that could not be read when their transaction was whole."""
        bad, self._bad = self._bad, []
        return bad

    @property
    def source_lsn(self) -> Lsn | None:
        """The end of the last transaction that was gathered."""
        return Lsn(self._last_end) if self._last_end else None

    def take(self, record: Record, gathered: Gathered) -> None:
        """Take a record; gather what is whole with it."""
        if record.topic == self._topic:
            self._take_end(record)
        else:
            before = self._newest[record.place]
            try:
                super().take(record, gathered)
            except BadValue:
                self._enqueue(_Item(record, None, before))
                raise
        self._advance(gathered)

    def take_change(self, change: Change, gathered: Gathered) -> None:
        """Let an event wait that did not come before."""
        place = change.record.place
        before = self._newest[place]
        if self.accept(change, gathered):
            event = change.event
            if event.order is not None and not event.has_lasting_order:
                raise SourceError(
                    "transaction_topic needs Debezium 3.6.1 or newer: before it the counts of a"
                    " transaction begin again when Debezium is restarted",
                    hint="Upgrade Debezium, or do without transaction_topic.",
                )
            self._enqueue(_Item(change.record, change, before))

    def settle(self, gathered: Gathered) -> None:
        """Nothing is let go before its transaction is whole."""

    def place_of(self, change: Change) -> Place:  # noqa: ARG002  wherever it came from
        """Fold the events of a transaction together."""
        return _TOGETHER

    def _enqueue(self, item: _Item) -> None:
        place = item.record.place
        self._queues[place].append(item)
        self._bytes[place] += item.record.size

    def _take_end(self, record: Record) -> None:
        if record.value is None:
            return
        end = read_end(read_value(self._reader, record.value).value)
        if end is not None and end.lsn > max(self._last_end, *(e.lsn for _, _, e in self._ends), 0):
            self._ends.append((record.place, record.offset, end))

    def _advance(self, gathered: Gathered) -> None:
        """Gather rows of snapshots, and transactions that are whole."""
        self._gather_free(gathered)
        while self._ends and self._is_whole(self._ends[0][2]):
            _, _, end = self._ends.popleft()
            self._gather(self._take_items(end), gathered)
            self._last_end = end.lsn
            self._recent[end.xid] = None
            if len(self._recent) > _RECENT:
                self._recent.popitem(last=False)
            self._gather_free(gathered)

    def _gather_free(self, gathered: Gathered) -> None:
        """Gather what stands first and waits for no end: snapshots, and what was found late."""
        for queue in self._queues.values():
            while queue and self._is_free(queue[0]):
                self._gather([self._pop(queue)], gathered)

    def _is_free(self, item: _Item) -> bool:
        if item.change is None:
            return False
        event = item.change.event
        return event.order is None or (
            event.xid in self._recent and event.last_commit < self._last_end
        )

    def _is_whole(self, end: TransactionEnd) -> bool:
        known = self._tables()
        found: Counter[TableName] = Counter()
        for place, queue in self._queues.items():
            for item in queue:
                if not item.is_of(end):
                    break
                found[item.change.name if item.change else known[place[0]]] += 1
        expected = {name: count for name, count in end.counts.items() if name in known.values()}
        return all(found[name] >= count for name, count in expected.items())

    def _tables(self) -> Mapping[str, TableName]:
        return {topic: self._names.get(topic) or table_of(topic) for topic, _ in self._queues}

    def _take_items(self, end: TransactionEnd) -> list[_Item]:
        """Take the events of a transaction out of the queues, in their order."""
        taken: list[_Item] = []
        left = Counter(end.counts)
        known = self._tables()
        for place, queue in self._queues.items():
            while queue and queue[0].is_of(end):
                item = queue[0]
                name = item.change.name if item.change else known[place[0]]
                if item.change is None and not left[name]:
                    break
                left[name] -= 1
                taken.append(self._pop(queue))
        return sorted(taken, key=_order)

    def _pop(self, queue: deque[_Item]) -> _Item:
        item = queue.popleft()
        self._bytes[item.record.place] -= item.record.size
        return item

    def _gather(self, items: Sequence[_Item], gathered: Gathered) -> None:
        for item in items:
            if item.change is None:
                continue
            try:
                self.fold(item.change, gathered)
            except BadValue as exc:
                self._bad.append((item.record, str(exc)))
            except TableMissingError as exc:
                schema, table = exc.name
                raise TargetError(
                    f"the target has no table {schema}.{table}, and its records have no schema",
                    hint="Make it, or send schemas; see docs/kafka.md.",
                ) from exc
        self._release(_TOGETHER, gathered)


def _order(item: _Item) -> int:
    return 0 if item.change is None else item.change.event.order or 0
