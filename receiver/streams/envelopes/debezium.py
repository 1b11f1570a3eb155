"""Debezium's events: what both of its envelopes share, and the one that upserts.

A change of a key comes as two events, the delete of the old row and the create of the new one, at
one LSN. The second leaves values open that did not change, so that the two are one: a row that
moves. Where a topic has one partition they stand next to each other, a tombstone between them at
most; the delete waits for what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pgrepl.decoding.debezium.event import Event, read_event
from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.pgoutput import writing
from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.records.serialized import KEPT, Reader
from pgrepl.decoding.records.values import UNFORESEEN, BadValue
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.changes import Gathered
from pgrepl.receiver.streams.envelopes.envelope import Key, RowId, read_key, read_value, table_of
from pgrepl.receiver.streams.envelopes.stateless import Stateless
from pgrepl.receiver.streams.envelopes.upsert import delete_by_key
from pgrepl.receiver.streams.layouts import Layouts, RowLayout
from pgrepl.receiver.streams.record import Place, Record

__all__ = ["Change", "DebeziumEnvelope", "DebeziumUpsert", "Prepared", "row_of"]

#: Says in a delete that the row lives on under another key.
_NEW_KEY = "__debezium.newkey"


class Change(NamedTuple):
    """An event with the record that it came in."""

    record: Record
    event: Event
    key: Key | None
    #: Of its rows; None: it came without.
    row_schema: Field | None

    @property
    def name(self) -> TableName:
        """Its table."""
        return self.event.schema, self.event.table

    def continues(self, delete: Change) -> bool:
        """Whether it makes a row again that was deleted under another key."""
        one, other = self.event, delete.event
        return (
            one.op == "c"
            and self.key is not None
            and delete.key is not None
            and (one.lsn, one.xid, self.name) == (other.lsn, other.xid, delete.name)
        )


class Prepared(NamedTuple):
    """What an event becomes."""

    layout: RowLayout
    message: bytes
    at_us: int
    #: What it was made of.
    records: Sequence[Record]
    is_serial: bool = False

    def add_to(self, gathered: Gathered) -> None:
        """Gather it."""
        gathered.add(self.layout, self.message, self.at_us, self.records, is_serial=self.is_serial)


class _Waiting(NamedTuple):
    """A delete that may be half of a move."""

    change: Change
    prepared: Prepared


class DebeziumEnvelope(Stateless):
    """Reads events; what they become is the envelope's."""

    format = "pgoutput"

    def __init__(
        self,
        reader: Reader,
        layouts: Layouts,
        placeholder: Placeholder,
        lane_of: Callable[[Place], Place] = lambda own: own,
    ) -> None:
        """Read keys and values by the same reader.

        Partitions of one lane follow one another, as the files of a table do.
        """
        self._lane_of = lane_of
        self._reader = reader
        self._layouts = layouts
        self._placeholder = placeholder
        self._waiting: dict[Place, _Waiting] = {}
        self._counts: dict[Place, int] = {}
        self._names: dict[str, TableName] = {}
        self._row_schemas: dict[int, tuple[Field, Field | None]] = {}

    def take(self, record: Record, gathered: Gathered) -> None:
        """Take a record."""
        change = self.read_change(record)
        if change is None:
            self._take_tombstone(record, gathered)
        elif change.event.op != "m":
            self._names[record.topic] = change.name
            self.take_change(change, gathered)

    def read_change(self, record: Record) -> Change | None:
        """Read the event in a record; None: it is a tombstone.

        Raises
        ------
        BadValue
            when it cannot be read.

        """
        if record.value is None:
            return None
        key = read_key(self._reader, record.key)
        datum = read_value(self._reader, record.value)
        if datum.value is None:
            return None
        row = None if datum.schema is None else self._row_schema(datum.schema)
        return Change(record, read_event(datum.value), key, row)

    def _row_schema(self, schema: Field) -> Field | None:
        """Return the schema of an event's rows."""
        known = self._row_schemas.get(id(schema))
        if known is None:
            if len(self._row_schemas) >= KEPT:
                self._row_schemas.clear()
            # The schema is kept too, so that its identity stays its own.
            known = schema, schema.part("after") or schema.part("before")
            self._row_schemas[id(schema)] = known
        return known[1]

    def take_change(self, change: Change, gathered: Gathered) -> None:
        """Take an event."""
        self.fold(change, gathered)

    def take_again(self, record: Record, gathered: Gathered) -> None:
        """Take a record that was parked; whether it came before is not asked."""
        change = self.read_change(record)
        if change is None:
            self._take_tombstone(record, gathered)
        elif change.event.op != "m":
            if not self._open_columns(change.event):
                # A row that is whole needs none that it was before.
                self._release(self.place_of(change), gathered)
            self.fold(change, gathered)

    def end_again(self, gathered: Gathered) -> None:
        """Let go of deletes that nothing followed."""
        for place in list(self._waiting):
            self._release(place, gathered)

    def row_of(self, record: Record) -> RowId:
        """Return which row a record is about; a row of a snapshot is one of a whole table."""
        change = self.read_change(record)
        if change is None:
            return self._row_of_tombstone(record)
        event = change.event
        return RowId(
            change.name,
            None if change.key is None else change.key.values,
            is_whole_table=event.op == "t" or event.is_snapshot,
            lsn=event.lsn,
            is_delete=event.op == "d",
            open_columns=self._open_columns(event),
        )

    def _open_columns(self, event: Event) -> frozenset[str]:
        """Return the columns that an event may leave as they are."""
        if event.op not in ("c", "u"):
            return frozenset()
        values = (event.after or {}).items()
        return frozenset(name for name, value in values if self._placeholder.stands_for(value))

    def place_of(self, change: Change) -> Place:
        """Return where an event stands next to the one before it."""
        return self._lane_of(change.record.place)

    def fold(self, change: Change, gathered: Gathered) -> None:
        """Gather an event, with one that waits where both are one change."""
        place = self.place_of(change)
        waiting = self._waiting.get(place)
        if waiting is not None and change.continues(waiting.change):
            try:
                prepared = self._move(waiting.change, change)
            except UNFORESEEN:
                self._release(place, gathered)
                raise
            del self._waiting[place]
            prepared.add_to(gathered)
            return
        self._release(place, gathered)
        is_ordered = self._counts.get(place, 1) == 1
        if not is_ordered:
            self._check_alone(change)
        found = self.prepare(change)
        if found is not None and change.event.op == "d" and change.key is not None and is_ordered:
            self._waiting[place] = _Waiting(change, found)
        elif found is not None:
            found.add_to(gathered)

    def settle(self, gathered: Gathered) -> None:
        """Let go of deletes that nothing followed, unless they say that something will."""
        for place, waiting in list(self._waiting.items()):
            if _NEW_KEY not in waiting.change.record.headers:
                self._release(place, gathered)

    def first_waiting(self, place: Place) -> int | None:
        """Return the offset of a delete that waits."""
        waiting = self._waiting.get(self._lane_of(place))
        if waiting is None or waiting.change.record.place != place:
            return None
        return waiting.change.record.offset

    def restore(self, place: Place, _state: Mapping[str, Any], partition_count: int) -> None:
        """Take note of how many partitions the topic has."""
        self._counts[self._lane_of(place)] = partition_count

    def prepare(self, change: Change) -> Prepared | None:
        """Return what an event alone becomes; None: nothing."""
        raise NotImplementedError

    def _release(self, place: Place, gathered: Gathered) -> None:
        waiting = self._waiting.pop(place, None)
        if waiting is not None:
            waiting.prepared.add_to(gathered)

    def layout(self, change: Change) -> RowLayout:
        """Return the layout of the rows of an event."""
        key = change.key
        if change.row_schema is not None and (key is None or key.schema is not None):
            key_schema = None if key is None else key.schema
            return self._layouts.described(change.name, change.row_schema, key_schema)
        values = change.event.after or change.event.before or {}
        names = () if key is None else tuple(key.values)
        return self._layouts.found(change.name, tuple(values), names, is_whole=False)

    def truncation(self, change: Change) -> Prepared | None:
        """Return the truncation of a table; None: there is none."""
        layout = self._layouts.whole(change.name)
        if layout is None:
            return None
        message = writing.truncate(layout.oid)
        return Prepared(layout, message, change.event.commit_us, (change.record,), is_serial=True)

    def _move(self, deleted: Change, created: Change) -> Prepared:
        """Return the move of a row to another key; what is left open stays as it is."""
        layout = self.layout(created)
        row = layout.row(row_of(created.event.after), self._placeholder)
        old = layout.key_row(key_of(deleted).values)
        message = writing.update(layout.oid, row, key=old)
        records = deleted.record, created.record
        return Prepared(layout, message, created.event.commit_us, records)

    def _take_tombstone(self, record: Record, gathered: Gathered) -> None:
        """Take a record without a value: it only repeats the delete before it."""

    def _row_of_tombstone(self, record: Record) -> RowId:
        """Return which row a record without a value changes: none."""
        return RowId(self.name_of(record.topic), None)

    def name_of(self, topic: str) -> TableName:
        """Return the table of a topic, as its events said or else its name does."""
        return self._names.get(topic) or table_of(topic)

    def _check_alone(self, change: Change) -> None:
        """Refuse what only the order of all events of a table would tell the meaning of."""
        event = change.event
        if event.op == "t":
            raise BadValue(
                "a TRUNCATE is in one partition of several, so that what came before it is unknown:"
                " use the transaction topic, or one partition"
            )
        if change.key is None and event.op != "r":
            raise BadValue(
                "events of a table without a key are in several partitions, so that their order is"
                " unknown: use the transaction topic, or one partition"
            )


class DebeziumUpsert(DebeziumEnvelope):
    """The last event of a key wins: that some come again does no harm."""

    format = "upsert"

    def prepare(self, change: Change) -> Prepared | None:
        """Return what an event alone becomes."""
        event = change.event
        if event.op == "t":
            return self.truncation(change)
        key = key_of(change)
        if event.op == "d":
            layout = self._layouts.of_key(change.name, tuple(key.values), key.schema)
            if layout is None:
                return None
            message = writing.delete(layout.oid, key=layout.key_row(key.values))
            return Prepared(layout, message, event.commit_us, (change.record,))
        layout = self.layout(change)
        after = row_of(event.after)
        layout.check_key(after)
        if event.op == "c":
            row = layout.new_row(after, self._placeholder)
        else:
            row = layout.row(after, self._placeholder if event.op == "u" else None)
        message = writing.update(layout.oid, row)
        return Prepared(layout, message, event.commit_us, (change.record,))

    def _take_tombstone(self, record: Record, gathered: Gathered) -> None:
        """Delete a row: of a compacted topic the delete itself may be gone."""
        waiting = self._waiting.get(self._lane_of(record.place))
        if waiting is not None and waiting.change.record.key == record.key:
            return
        key = read_key(self._reader, record.key)
        if key is not None:
            name = self.name_of(record.topic)
            delete_by_key(self._layouts, name, key, record, gathered)

    def _row_of_tombstone(self, record: Record) -> RowId:
        """Return which row a record without a value deletes, unless the delete before it did."""
        key = read_key(self._reader, record.key)
        values = None if key is None else key.values
        return RowId(self.name_of(record.topic), values, is_tombstone=True)


def key_of(change: Change) -> Key:
    """Return the key of an event."""
    if change.key is None:
        raise BadValue("it has no key, so that no row can be told from another")
    return change.key


def row_of(values: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the row of an event, which must be there."""
    if values is None:
        raise BadValue("it has not the row that its kind must have: is the replica identity FULL?")
    return values
