"""Debezium's events with its transaction topic: whole transactions, in the order of their commits.

The topic says at each transaction's end how many events of each table it has. Until all of them are
there they wait, wherever they come from; then all of them are gathered at once, so that no batch
ends inside a transaction. Ends rise from transaction to transaction: one that came before is told
by that alone.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from pgrepl.config.naming import shown_name
from pgrepl.decoding.debezium.duplicates import Newest
from pgrepl.decoding.debezium.event import TransactionEnd, read_end
from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.serialized import Reader
from pgrepl.decoding.records.values import UNFORESEEN, BadValue, why_unreadable
from pgrepl.errors import SourceError, TargetError
from pgrepl.lsn import Lsn
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.changes import Gathered
from pgrepl.receiver.streams.envelopes.debezium import Change
from pgrepl.receiver.streams.envelopes.debezium_exact import (
    DebeziumExact,
    ReadAgain,
    cannot_read_again,
    is_contained,
)
from pgrepl.receiver.streams.envelopes.envelope import read_value, table_of
from pgrepl.receiver.streams.layouts import Layouts, TableMissingError
from pgrepl.receiver.streams.record import Place, Record
from pgrepl.receiver.streams.spread_events import SpreadEvents, name_in_topics
from pgrepl.receiver.streams.waiting import Item, Memory, Run, WaitingQueue

__all__ = ["DebeziumTransactions"]

logger = logging.getLogger(__name__)

#: A partition that has so much waiting for other transactions is not read on.
_FULL_BYTES = 16 << 20
#: The number of ends that are remembered, for first events after a snapshot found late ...
_RECENT = 1000
#: ... and the number that may wait for their events.
_FULL_ENDS = 10_000
#: Where all events of a transaction are folded, wherever they came from.
_TOGETHER: Place = ("", 0)


class DebeziumTransactions(DebeziumExact):
    """Every event once, and with all others of its transaction."""

    def __init__(
        self,
        reader: Reader,
        layouts: Layouts,
        placeholder: Placeholder,
        topic: str,
        memory: Memory | None = None,
        *,
        read_again: ReadAgain = cannot_read_again,
    ) -> None:
        """Know nothing yet; ``topic`` is the transaction topic."""
        super().__init__(reader, layouts, placeholder, read_again=read_again)
        self._topic = topic
        self._memory = memory or Memory()
        self._queues: dict[Place, WaitingQueue] = {}
        #: Those of them that something waits in.
        self._busy: dict[Place, WaitingQueue] = {}
        #: The tables that topics are named after, as their names have them.
        self._suffixes: set[str] = set()
        self._ends: deque[tuple[int, TransactionEnd]] = deque()
        self._newest_end = self._last_end = self._newest_end_us = 0
        #: Of the first end that waits: how many of its events are there, by place and in all.
        self._of_place: dict[Place, Counter[TableName]] = {}
        self._found: Counter[TableName] = Counter()
        #: How many have to be there, of tables that we receive.
        self._expected: Mapping[TableName, int] = {}
        self._recent: OrderedDict[int, None] = OrderedDict()
        #: The last transaction without an end.
        self._endless: int | None = None
        #: The end of the last transaction of which it was said what it waits for.
        self._told_end = 0
        #: Topics whose tables are to be emptied before the first row of a snapshot.
        self._to_empty: dict[str, int] = {}
        self._spread = SpreadEvents()

    def restore(self, place: Place, state: Mapping[str, Any], partition_count: int) -> None:
        """Go on from what was kept."""
        if place[0] != self._topic:
            super().restore(place, self._spread.restore(place[0], state), partition_count)
            self._names |= self._spread.tables
            self._queues[place] = WaitingQueue(place, self._memory, self.read_change)
            self._suffixes.add(".".join(table_of(place[0])))
            return
        if partition_count > 1:
            raise SourceError(
                f'transaction topic "{self._topic}" has {partition_count} partitions, so that the'
                " order of transactions is unknown",
                hint="Make it with one partition.",
            )
        self._newest_end = self._last_end = int(state.get("end_lsn", 0))
        self._newest_end_us = int(state.get("end_us", 0))

    def close(self) -> None:
        """Let go of what waits: it is read again."""
        for queue in self._queues.values():
            queue.close()

    def state_of(self, place: Place) -> Mapping[str, Any]:
        """Return what was known before the first event that waits."""
        if place[0] == self._topic:
            return {"end_lsn": self._last_end, "end_us": self._newest_end_us}
        runs = self._queues[place].runs
        newest = runs[0].before if runs else self._newest[place]
        return {**newest.dump(), **self._spread.state_of(place[0])}

    def first_waiting(self, place: Place) -> int | None:
        """Return the offset of the first record that waits."""
        if place[0] == self._topic:
            return self._ends[0][0] if self._ends else None
        runs = self._queues[place].runs
        return runs[0].first_offset if runs else None

    def is_full(self, place: Place) -> bool:
        """Whether enough of a partition waits, and not for itself."""
        if place[0] == self._topic:
            return len(self._ends) >= _FULL_ENDS
        queue = self._queues[place]
        if not queue.runs or queue.byte_count < _FULL_BYTES:
            return False
        # Nothing more of the first transaction comes after an event of another.
        return not (self._ends and queue.runs[-1].is_of(self._ends[0][1]))

    @property
    def source_lsn(self) -> Lsn | None:
        """The end of the last transaction that was gathered."""
        return Lsn(self._last_end) if self._last_end else None

    def take(self, record: Record, gathered: Gathered) -> None:
        """Take a record; gather what is whole with it."""
        self._spread.begin(self._last_end)
        if record.topic == self._topic:
            self._take_end(record, gathered)
        else:
            self._take_event(record, gathered)
            self._gather_while(record.place, self._is_free, gathered)
            self._gather_while(record.place, self._is_endless, gathered)
        while self._ends and self._is_whole():
            self._end_first(gathered)

    def take_change(self, change: Change, gathered: Gathered) -> None:
        """Let an event wait that did not come before."""
        place, event = change.record.place, change.event
        before = self._newest[place]
        if self.accept(change, gathered):
            is_spread = change.key is None and self._counts[place] > 1
            if is_spread and not self._spread.is_new(place[0], event, self._last_end):
                return
            if event.order is not None and not event.has_lasting_order:
                raise SourceError(
                    "transaction_topic needs Debezium 3.6.1 or newer: before it the counts of a"
                    " transaction begin again when Debezium is restarted",
                    hint="Upgrade Debezium, or do without transaction_topic.",
                )
            self._enqueue(Item(change.record, change), before)

    def settle(self, gathered: Gathered) -> None:  # noqa: ARG002  nothing is let go
        """Say what a transaction waits for: nothing is let go before it is whole."""
        if not self._ends or self._ends[0][1].lsn == self._told_end:
            return
        end = self._ends[0][1]
        self._told_end = end.lsn
        missing = ", ".join(
            f"{shown_name(*name)}: {count - self._found[name]}"
            for name, count in self._expected.items()
            if count > self._found[name]
        )
        logger.warning(
            "a transaction waits for events that its end counts, and what follows waits for it",
            extra={
                "xid": end.xid,
                "missing": missing,
                "hint": "Does something between Debezium and Kafka drop events? See docs/kafka.md.",
            },
        )

    def empty_table(self, change: Change, gathered: Gathered) -> None:  # noqa: ARG002  later
        """Empty a table when the row itself leaves: what came before it may wait still."""
        self._to_empty[change.record.topic] = change.event.lsn

    def place_of(self, change: Change) -> Place:  # noqa: ARG002  wherever it came from
        """Fold the events of a transaction together."""
        return _TOGETHER

    def _take_event(self, record: Record, gathered: Gathered) -> None:
        place = record.place
        before = self._newest[place]
        change: Change | None = None
        try:
            change = self.read_change(record)
            if change is None or change.event.op == "m":
                return
            if self._names.get(place[0]) != change.name:
                self._learn(place[0], change.name)
            self.take_change(change, gathered)
        except UNFORESEEN as exc:
            # Its transaction counts it, whichever it is; an event outside of all is in no count.
            if change is None or change.event.order is not None:
                self._enqueue(Item(record, None), before)
            gathered.park(record, why_unreadable(exc))

    def _learn(self, topic: str, name: TableName) -> None:
        """Take note of the table of a topic, as its events say."""
        self._names[topic] = name
        if name_in_topics(name) != ".".join(table_of(topic)):
            self._spread.begin_late(topic, name, self._last_end)
        self._expect()

    def _enqueue(self, item: Item, before: Newest) -> None:
        place = item.record.place
        queue = self._busy[place] = self._queues[place]
        snapshot_lsn = self._newest[place].snapshot_lsn
        queue.append(item, before, self.name_of(place[0]), snapshot_lsn)
        self._count(place)

    def _take_end(self, record: Record, gathered: Gathered) -> None:
        if record.value is None:
            return
        end = read_end(read_value(self._reader, record.value).value)
        if end is None:
            return
        if end.lsn <= self._newest_end and 0 < self._newest_end_us < end.commit_us:
            raise SourceError(
                f'transaction topic "{self._topic}": a transaction ends before others that were'
                " received, though it was committed later: is it of another server?",
                hint="Debezium was pointed to a server whose log begins again. Start over: pgrepl"
                " drop --with-data, with other topics.",
            )
        if end.lsn > self._newest_end:
            self._newest_end = end.lsn
            self._newest_end_us = max(self._newest_end_us, end.commit_us)
            self._ends.append((record.offset, end))
            if len(self._ends) == 1:
                self._begin_first(gathered)

    def _begin_first(self, gathered: Gathered) -> None:
        """Look what is there of the first transaction that has an end."""
        self._expect()
        self._of_place, self._found = {}, Counter()
        for place in list(self._busy):
            self._count(place)
            self._gather_while(place, self._is_endless, gathered)

    def _end_first(self, gathered: Gathered) -> None:
        """Gather the first transaction that has an end; all of its events are there."""
        end = self._ends[0][1]
        self._gather(self._take_items(end, gathered), gathered)
        self._ends.popleft()
        self._last_end = end.lsn
        self._spread.end(end.lsn)
        self._recent[end.xid] = None
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        for place in list(self._busy):
            self._gather_while(place, self._is_free, gathered)
        if self._ends:
            self._begin_first(gathered)

    def _expect(self) -> None:
        """Say how many events of the first end have to come, of tables that topics of ours have."""
        counts = self._ends[0][1].counts if self._ends else {}
        known = set(self._names.values())
        self._expected = {
            name: count
            for name, count in counts.items()
            if name in known or name_in_topics(name) in self._suffixes
        }

    def _is_whole(self) -> bool:
        return all(self._found[name] >= count for name, count in self._expected.items())

    def _count(self, place: Place) -> None:
        """Count again how many events of the first end wait in a partition."""
        if not self._ends:
            return
        self._found.subtract(self._of_place.pop(place, {}))
        queue = self._busy.get(place)
        counts = queue.counts_of(self._ends[0][1]) if queue is not None else Counter()
        if counts:
            self._of_place[place] = counts
            self._found.update(counts)

    def _is_free(self, run: Run) -> bool:
        """Whether it waits for no end: a snapshot, or of a topic that was found late."""
        if run.kind != "transaction":
            return run.kind == "free"
        if run.last_commit:
            return run.last_commit < self._last_end
        return run.xid in self._recent

    def _is_endless(self, run: Run) -> bool:
        """Whether its transaction ended before one whose end is there: its own end is missing."""
        if not self._ends or run.kind != "transaction" or run.is_of(self._ends[0][1]):
            return False
        if not 0 < run.last_commit < self._ends[0][1].lsn:
            return False
        if run.xid != self._endless:
            logger.warning(
                "a transaction has no end in the transaction topic: its events are received as they"
                " come",
                extra={"xid": run.xid},
            )
        self._endless = run.xid
        return True

    def _gather_while(
        self, place: Place, is_meant: Callable[[Run], bool], gathered: Gathered
    ) -> None:
        queue = self._busy.get(place)
        if queue is None or not queue.runs or not is_meant(queue.runs[0]):
            return
        while queue.runs and is_meant(queue.runs[0]):
            self._gather(self._pop(place, queue, gathered), gathered)
        if not queue.runs:
            del self._busy[place]
        self._count(place)

    def _pop(self, place: Place, queue: WaitingQueue, gathered: Gathered) -> Iterator[Item]:
        """Take the first run out; what a newer snapshot contains is passed over."""
        snapshot_lsn = self._snapshots.get(place[0], 0)
        if queue.runs[0].snapshot_lsn >= snapshot_lsn:
            return (item for item in queue.pop() if item.change is not None)
        return _without_contained(queue.pop(), snapshot_lsn, gathered)

    def _take_items(self, end: TransactionEnd, gathered: Gathered) -> Iterator[Item]:
        """Take the events of a transaction out of the queues, in their order."""
        left = Counter(end.counts)
        taken: list[Iterator[Item]] = []
        for place, queue in list(self._busy.items()):
            own: list[Iterator[Item]] = []
            while queue.runs and queue.runs[0].is_of(end):
                run = queue.runs[0]
                if run.kind == "unreadable" and all(left[name] <= 0 for name in run.counts):
                    break
                left.subtract(run.counts)
                own.append(self._pop(place, queue, gathered))
            if not queue.runs:
                del self._busy[place]
            taken.append(chain.from_iterable(own))
        return heapq.merge(*taken, key=_order)

    def _gather(self, items: Iterable[Item], gathered: Gathered) -> None:
        for item in items:
            if item.change is None:
                continue
            topic, event = item.record.topic, item.change.event
            try:
                if event.op == "r" and self._to_empty.get(topic) == event.lsn:
                    del self._to_empty[topic]
                    super().empty_table(item.change, gathered)
                self.fold(item.change, gathered)
            except UNFORESEEN as exc:
                gathered.park(item.record, why_unreadable(exc))
            except TableMissingError as exc:
                schema, table = exc.name
                raise TargetError(
                    f"the target has no table {schema}.{table}, and its records have no schema",
                    hint="Make it, or send schemas; see docs/kafka.md.",
                ) from exc
        self._release(_TOGETHER, gathered)


def _order(item: Item) -> tuple[int, int]:
    """Return where an event stands: numbers may be given twice, see ``duplicates``."""
    if item.change is None:
        return 0, 0
    return item.change.event.lsn, item.change.event.order or 0


def _without_contained(
    items: Iterator[Item], snapshot_lsn: int, gathered: Gathered
) -> Iterator[Item]:
    for item in items:
        if item.change is None:
            continue
        try:
            if not is_contained(item.change.event, snapshot_lsn):
                yield item
        except BadValue as exc:
            gathered.park(item.record, str(exc))
