"""Upsert: the last value of a key wins, a null deletes. Nothing is kept but the target's rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pgrepl.decoding.pgoutput import writing
from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.records.serialized import Reader
from pgrepl.decoding.records.values import BadValue
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.changes import Gathered
from pgrepl.receiver.streams.envelopes.envelope import Key, RowId, read_key, read_value, table_of
from pgrepl.receiver.streams.envelopes.stateless import Stateless
from pgrepl.receiver.streams.layouts import Layouts, RowLayout
from pgrepl.receiver.streams.record import Place, Record

__all__ = ["UpsertEnvelope", "delete_by_key"]


class UpsertEnvelope(Stateless):
    """Takes records whose value is the row itself."""

    format = "upsert"

    def __init__(self, reader: Reader, layouts: Layouts) -> None:
        """Read keys and values by the same reader."""
        self._reader = reader
        self._layouts = layouts

    def take(self, record: Record, gathered: Gathered) -> None:
        """Take a record."""
        key = read_key(self._reader, record.key)
        if key is None:
            raise BadValue("it has no key, so that no row can be told from another")
        name = table_of(record.topic)
        if record.value is None:
            delete_by_key(self._layouts, name, key, record, gathered)
            return
        datum = read_value(self._reader, record.value)
        if datum.value is None:
            delete_by_key(self._layouts, name, key, record, gathered)
            return
        if not isinstance(datum.value, dict):
            raise BadValue("its value is no row: not an object of named fields")
        values = {**key.values, **datum.value}
        for own, value in key.values.items():
            if values[own] != value:
                raise BadValue(f'key and value have different values of "{own}"')
        layout = self._layout(name, key, datum.schema, values)
        message = writing.update(layout.oid, layout.row(values))
        gathered.add(layout, message, record.at_us, (record,))

    def take_again(self, record: Record, gathered: Gathered) -> None:
        """Take a record that was parked."""
        self.take(record, gathered)

    def row_of(self, record: Record) -> RowId:
        """Return which row a record is about."""
        key = read_key(self._reader, record.key)
        return RowId(table_of(record.topic), None if key is None else key.values)

    def settle(self, gathered: Gathered) -> None:
        """Nothing waits."""

    def first_waiting(self, place: Place) -> int | None:  # noqa: ARG002  nothing waits
        """Return None."""
        return None

    def restore(self, place: Place, state: Mapping[str, Any], partition_count: int) -> None:
        """Nothing was kept."""

    def _layout(
        self, name: TableName, key: Key, schema: Field | None, values: Mapping[str, Any]
    ) -> RowLayout:
        layout = (
            self._layouts.described(name, schema, key.schema)
            if schema is not None and key.schema is not None
            else self._layouts.found(name, tuple(values), tuple(key.values), is_whole=True)
        )
        # A key is never null; of a schema that says otherwise the row is refused here.
        layout.check_key(values)
        return layout


def delete_by_key(
    layouts: Layouts, name: TableName, key: Key, record: Record, gathered: Gathered
) -> None:
    """Delete a row; where there is no table there is none."""
    layout = layouts.of_key(name, tuple(key.values), key.schema)
    if layout is not None:
        message = writing.delete(layout.oid, key=layout.key_row(key.values))
        gathered.add(layout, message, record.at_us, (record,))
