"""Debezium's events, each once: those that came before are told by their positions.

A snapshot that was begun again has another LSN. With its first row the table is emptied, and what
is still to come of the one before, or of events that it contains, is passed over. Events of another
partition that it does not contain may have been received by then: they are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pgrepl.decoding.debezium.duplicates import Newest
from pgrepl.decoding.debezium.event import Event
from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.pgoutput import writing
from pgrepl.decoding.records.serialized import Reader
from pgrepl.decoding.records.values import UNFORESEEN, BadValue, why_unreadable
from pgrepl.errors import SourceError
from pgrepl.receiver.streams.changes import Gathered
from pgrepl.receiver.streams.envelopes.debezium import Change, DebeziumEnvelope, Prepared, row_of
from pgrepl.receiver.streams.layouts import Layouts, TableMissingError
from pgrepl.receiver.streams.record import Place, Record

__all__ = ["DebeziumExact", "ReadAgain", "cannot_read_again", "is_contained"]

#: Returns all records of a partition that were taken and do not wait, from its first on.
ReadAgain = Callable[[Place], Iterable[Record]]

_UNCLEAR = (
    "it may be a row that Debezium sent again, or another one that a COPY wrote: its table has no"
    " key, and Debezium does not count events. Set provide.transaction.metadata=true"
    " (Debezium 3.6.1 or newer), or give the table a key"
)


def cannot_read_again(place: Place) -> Iterable[Record]:
    """Stand for the reading of what needs none."""
    raise AssertionError(f"{place[0]} is read in one stream: nothing of it overtakes the rest")


_OTHER_SERVER = (
    "its place in the log is before others that were received, though it was committed later: it is"
    " of another server, whose log began again. Give that one topics of its own"
)


class DebeziumExact(DebeziumEnvelope):
    """Every event once, as an insert, update or delete of a row that must be as it says."""

    format = "pgoutput"

    def __init__(
        self,
        reader: Reader,
        layouts: Layouts,
        placeholder: Placeholder,
        lane_of: Callable[[Place], Place] = lambda own: own,
        read_again: ReadAgain = cannot_read_again,
    ) -> None:
        """Know no event yet; ``read_again`` returns what was taken of a partition."""
        super().__init__(reader, layouts, placeholder, lane_of)
        self._read_again = read_again
        self._newest: dict[Place, Newest] = {}
        #: The newest snapshot of each topic.
        self._snapshots: dict[str, int] = {}
        #: While a delete waits: what was known before it.
        self._before_waiting: dict[Place, Newest] = {}

    def restore(self, place: Place, state: Mapping[str, Any], partition_count: int) -> None:
        """Go on from the newest event of a partition."""
        super().restore(place, state, partition_count)
        found = Newest.load(state) if state else Newest()
        lane = self._lane_of(place)
        known = self._newest.get(lane, found)
        self._set_newest(lane, max(known, found, key=lambda newest: newest.rank))

    def state_of(self, place: Place) -> Mapping[str, Any]:
        """Return the newest event that is not just waiting."""
        lane = self._lane_of(place)
        return self._before_waiting.get(lane, self._newest[lane]).dump()

    def take_change(self, change: Change, gathered: Gathered) -> None:
        """Take an event unless it came before."""
        place = self._lane_of(change.record.place)
        known = self._newest[place]
        if not self.accept(change, gathered):
            return
        try:
            self.fold(change, gathered)
        except TableMissingError:
            # It comes again when the table is there.
            self._newest[place] = known
            self._snapshots[place[0]] = max(
                newest.snapshot_lsn for own, newest in self._newest.items() if own[0] == place[0]
            )
            raise
        finally:
            # Also where it could not be read: the delete that waited before it does not any more.
            self._before_waiting.pop(place, None)
            if place in self._waiting:
                self._before_waiting[place] = known

    def accept(self, change: Change, gathered: Gathered) -> bool:
        """Whether an event did not come before; if so it is the newest of its partition now."""
        place, event = self._lane_of(change.record.place), change.event
        if event.is_incremental:
            raise BadValue(
                'it is a row of an incremental snapshot: use envelope = "debezium-upsert" for those'
            )
        newest = (
            self._accept_row(change, gathered) if event.op == "r" else self._accept_event(change)
        )
        if newest is not None:
            self._set_newest(place, newest)
        return newest is not None

    def _set_newest(self, place: Place, newest: Newest) -> None:
        self._newest[place] = newest
        if newest.snapshot_lsn > self._snapshots.get(place[0], 0):
            self._snapshots[place[0]] = newest.snapshot_lsn

    def _accept_row(self, change: Change, gathered: Gathered) -> Newest | None:
        """Return what is known after a row of a snapshot; None: it came before."""
        place, lsn = self._lane_of(change.record.place), change.event.lsn
        fresh = Newest(snapshot_lsn=lsn, newest_us=change.event.commit_us)
        if self._is_new_snapshot(change, gathered):
            return fresh
        known = self._newest[place]
        if lsn != self._snapshots.get(place[0], 0):
            if known.snapshot_lsn > lsn and known.is_older_than(change.event):
                raise BadValue(_OTHER_SERVER)
            return None
        if known.snapshot_lsn != lsn:
            return fresh
        # The rows of a snapshot come before all events that follow it.
        return None if known.has_events else known

    def _accept_event(self, change: Change) -> Newest | None:
        place, event = self._lane_of(change.record.place), change.event
        current = self._in_snapshot(place, self._newest[place], event)
        if current is None:
            return None
        if change.key is None and current.leaves_open(event):
            self._newest[place] = current.unclear()
            raise BadValue(_UNCLEAR)
        followed = current.follow(event)
        if followed is None:
            if current.is_older_than(event):
                raise BadValue(_OTHER_SERVER)
            self._newest[place] = current.passed(event)
        return followed

    def settle(self, gathered: Gathered) -> None:
        """Let go of deletes that nothing followed."""
        super().settle(gathered)
        for place in list(self._before_waiting):
            if place not in self._waiting:
                del self._before_waiting[place]

    def prepare(self, change: Change) -> Prepared | None:
        """Return what an event alone becomes."""
        event = change.event
        if event.op == "t":
            return self.truncation(change)
        layout = self.layout(change)
        if event.op == "c":
            row = layout.new_row(row_of(event.after), self._placeholder)
            message = writing.insert(layout.oid, row)
        elif event.op == "r":
            message = writing.insert(layout.oid, layout.row(row_of(event.after)))
        elif event.op == "d" and change.key is not None:
            message = writing.delete(layout.oid, key=layout.key_row(change.key.values))
        elif event.op == "d":
            message = writing.delete(layout.oid, old=layout.row(row_of(event.before)))
        else:
            old = None if change.key is not None else layout.row(row_of(event.before))
            row = layout.row(row_of(event.after), self._placeholder)
            message = writing.update(layout.oid, row, old=old)
        return Prepared(layout, message, event.commit_us, (change.record,))

    def _is_new_snapshot(self, change: Change, gathered: Gathered) -> bool:
        """Whether this is the first row of a snapshot; the table is then emptied of others."""
        place, lsn = self._lane_of(change.record.place), change.event.lsn
        topic = place[0]
        if lsn <= self._snapshots.get(topic, 0):
            return False
        known = [own for (name, _), own in self._newest.items() if name == topic]
        if any(own != Newest() and not own.has_only_after(lsn) for own in known):
            self.empty_table(change, gathered)
        for other in self._ahead(place, lsn):
            self._newest[other] = self._newest[other]._replace(snapshot_lsn=lsn)
        return True

    def _ahead(self, place: Place, snapshot_lsn: int) -> list[Place]:
        """Return the other partitions of a topic that were read beyond a snapshot."""
        return [
            other
            for other, own in self._newest.items()
            if other[0] == place[0] and other != place and own.has_some_after(snapshot_lsn)
        ]

    def empty_table(self, change: Change, gathered: Gathered) -> None:
        """Empty a table, the first row of whose new snapshot is here.

        Events that the snapshot does not contain are gathered again, of partitions that are ahead.
        """
        truncation = self.truncation(change)
        if truncation is None:
            return
        truncation.add_to(gathered)
        lsn = change.event.lsn
        for place in self._ahead(self._lane_of(change.record.place), lsn):
            for record in self._events_after(place, lsn):
                try:
                    self.take_again(record, gathered)
                except UNFORESEEN as exc:
                    gathered.park(record, why_unreadable(exc))
        self.end_again(gathered)

    def _events_after(self, place: Place, snapshot_lsn: int) -> Iterator[Record]:
        """Return the events of a partition that a snapshot does not contain, each once."""
        newest = Newest(snapshot_lsn=snapshot_lsn)
        is_first, is_whole = True, False
        for record in self._read_again(place):
            # Of a topic that has its first record nothing is missing.
            is_whole = is_whole or (is_first and record.offset == 0)
            is_first = False
            with suppress(*UNFORESEEN):
                change = self.read_change(record)
                if change is None or change.event.op == "m":
                    continue
                event = change.event
                if event.op == "r" or is_contained(event, snapshot_lsn):
                    is_whole = True
                    continue
                followed = newest.follow(event)
                if followed is None:
                    newest = newest.passed(event)
                    continue
                if event.op == "t" or not is_whole:
                    raise _cannot_tell(place)
                newest = followed
                yield record

    def _in_snapshot(self, place: Place, known: Newest, event: Event) -> Newest | None:
        """Return what is known of a partition, for an event after the newest snapshot.

        None: the snapshot contains the event.
        """
        snapshot = self._snapshots.get(place[0], 0)
        if known.snapshot_lsn == snapshot:
            return known
        # No row of the snapshot was in this partition, or what was there before is still to come.
        return None if is_contained(event, snapshot) else Newest(snapshot_lsn=snapshot)


def _cannot_tell(place: Place) -> SourceError:
    return SourceError(
        f'topic "{place[0]}": partition {place[1]} was received beyond a snapshot that another'
        " partition has only now, and what followed the snapshot cannot be read again",
        hint="Its records were deleted, or TRUNCATE is among them. Start over: pgrepl drop"
        " --with-data, and receive again.",
    )


def is_contained(event: Event, snapshot_lsn: int) -> bool:
    """Whether a snapshot contains an event that was sent before it, or in another partition.

    Raises
    ------
    BadValue
        when nothing tells.

    """
    if event.op != "r" and event.last_commit == 0 and event.lsn < snapshot_lsn:
        raise BadValue("nothing tells whether it was before the newest snapshot or after it")
    is_before = max(event.last_commit, event.lsn) < snapshot_lsn
    return is_before or 0 < event.last_commit < snapshot_lsn
