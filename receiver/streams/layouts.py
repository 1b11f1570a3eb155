"""How rows of a table are written into the spool: their columns, and what prints each value."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.pgoutput import writing
from pgrepl.decoding.pgoutput.grammar import UNCHANGED
from pgrepl.decoding.records.columns import HandlingModes, column_converter
from pgrepl.decoding.records.field_types import type_and_converter
from pgrepl.decoding.records.losses import loss_of
from pgrepl.decoding.records.schema import Field
from pgrepl.decoding.records.values import (
    BITS,
    BadValue,
    Converter,
    plain_text,
)
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.table_changes import ColumnSpec, FoundColumn
from pgrepl.receiver.streams.target_tables import TargetTables

__all__ = ["Layouts", "RowLayout", "TableMissingError"]


#: The number of layouts that are kept; more than that are made again.
_KEPT = 10_000
#: How often tables are looked at for columns that records have and they have not.
_LOOK_S = 1.0
#: For this time a schema that no table can have is not tried again.
_UNUSABLE_S = 2.0


class TableMissingError(Exception):
    """Records without a schema are of a table that the target does not have."""

    def __init__(self, name: TableName) -> None:
        """Name the table."""
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Columns of a table, in the order of its rows."""

    name: TableName
    oid: int
    columns: tuple[str, ...]
    key: tuple[str, ...]
    #: Of each column: its name, what prints its values, whether it is of the key, and whether
    #: it must have a value.
    _printers: tuple[tuple[str, Converter, bool, bool], ...]
    #: The description that stands before changes of this layout.
    relation: bytes

    def row(
        self, values: Mapping[str, Any], placeholder: Placeholder | None = None
    ) -> list[bytes | None]:
        """Return a row as texts.

        Raises
        ------
        BadValue
            when a value has none, or is missing.

        """
        found: list[bytes | None] = []
        for name, convert, is_key, is_required in self._printers:
            value = values.get(name)
            if value is None:
                if is_required:
                    raise BadValue(f'column "{name}" has no value, and must have one')
                found.append(None)
            elif placeholder is not None and not is_key and placeholder.stands_for(value):
                found.append(UNCHANGED)
            else:
                found.append(_text(name, convert, value))
        return found

    def new_row(self, values: Mapping[str, Any], placeholder: Placeholder) -> list[bytes | None]:
        """Return a row that was not there before, so that no value of it can have stayed.

        Raises
        ------
        BadValue
            when one is left open, or has no text.

        """
        found = self.row(values, placeholder)
        if any(value is UNCHANGED for value in found):
            raise BadValue(_LEFT_OPEN)
        return found

    def key_row(self, values: Mapping[str, Any]) -> list[bytes | None]:
        """Return a row in which only the key has values."""
        self.check_key(values)
        return [
            _text(name, convert, values[name]) if is_key else None
            for name, convert, is_key, _ in self._printers
        ]

    def check_key(self, values: Mapping[str, Any]) -> None:
        """Refuse a key with a null in it."""
        for name in self.key:
            if values.get(name) is None:
                raise BadValue(f'its key has no value of "{name}"')


_LEFT_OPEN = (
    "it leaves values open that did not change when its key did, and the delete of the row under"
    " its old key does not stand before it: that is in another partition (use the transaction"
    " topic, or one partition), is parked, or was removed by compaction"
)


def _text(name: str, convert: Converter, value: object) -> bytes:
    try:
        return convert(value).encode()
    except UnicodeEncodeError as exc:
        raise BadValue(f'column "{name}": a text is not valid Unicode') from exc
    except (ValueError, TypeError, KeyError) as exc:
        raise BadValue(f'column "{name}": {exc}') from exc


class Layouts:
    """The layouts of a source; the tables they need are made."""

    def __init__(self, tables: TargetTables, modes: HandlingModes) -> None:
        """Know none yet."""
        self._tables = tables
        self._modes = modes
        self._made: dict[object, RowLayout] = {}
        #: By a key's columns and the identity of its schema.
        self._keyed: dict[
            tuple[TableName, tuple[str, ...], int], tuple[Field | None, RowLayout]
        ] = {}
        #: Schemas that no table can have, why, and until when: thousands of records may have one.
        self._unusable: dict[tuple[TableName, int, int], tuple[object, object, str, float]] = {}
        #: By the identity of schemas, which are kept here so that it stays theirs.
        self._described: dict[tuple[TableName, int, int], tuple[object, object, RowLayout]] = {}
        self._oids: dict[TableName, int] = {}
        self._numbers = itertools.count(1)
        self._looked_at = 0.0

    def described(self, name: TableName, row: Field, key: Field | None) -> RowLayout:
        """Return the layout of rows with a schema; of the key, what is not in the row too."""
        identity = name, id(row), id(key)
        known = self._described.get(identity)
        if known is not None:
            return known[2]
        *_, why, until = self._unusable.get(identity, (row, key, "", 0.0))
        if time.monotonic() < until:
            raise BadValue(why)
        try:
            made = self._describe(name, row, key)
        except BadValue as exc:
            _make_room(self._unusable)
            self._unusable[identity] = row, key, str(exc), time.monotonic() + _UNUSABLE_S
            raise
        _make_room(self._described)
        self._described[identity] = row, key, made
        return made

    def _describe(self, name: TableName, row: Field, key: Field | None) -> RowLayout:
        own_key = () if key is None else key.parts
        fields = (*(field for field in own_key if row.part(field.name) is None), *row.parts)
        names = tuple(field.name for field in own_key)
        pairs = {field.name: _column(field) for field in fields}
        if len(pairs) < len(fields):
            raise BadValue("its schema has two fields of one name")
        wanted = [
            ColumnSpec(
                field.name,
                pairs[field.name][0],
                not field.is_optional,
                None if self._modes.is_plain else loss_of(field),
            )
            for field in fields
        ]
        found = self._tables.ensure(name, wanted, names)
        converters = {own: converter for own, (_, converter) in pairs.items()}
        for field in fields:
            length, kind = field.parameters.get("length", "1"), found[field.name].type
            if field.logical == BITS and kind == f"bit({length})":
                # A person said what the schema does not: how long its values are.
                converters[field.name] = column_converter(kind, self._modes)
        required = frozenset(column.name for column in wanted if column.is_not_null)
        return self._make(name, tuple(pairs), names, converters, required)

    def found(
        self, name: TableName, columns: Sequence[str], key: Sequence[str], *, is_whole: bool
    ) -> RowLayout:
        """Return the layout of rows without a schema: what they mean, the target's table says.

        ``is_whole``: columns that rows do not have are null.
        """
        known = self._made.get((name, tuple(columns), tuple(key)))
        if known is None:
            table = self._tables.columns(name)
            if table is None:
                raise TableMissingError(name)
            unknown = [own for own in (*columns, *key) if own not in table]
            if unknown:
                self._look_again()
                raise BadValue(f'the target\'s table has no column "{unknown[0]}"')
            names = tuple(table) if is_whole else tuple(columns)
            converters = {own: column_converter(table[own].type, self._modes) for own in names}
            required = frozenset(own for own in names if table[own].is_not_null)
            known = self._make(name, names, tuple(key), converters, required)
            _make_room(self._made)
            self._made[name, tuple(columns), tuple(key)] = known
        return known

    def of_key(self, name: TableName, key: Sequence[str], schema: Field | None) -> RowLayout | None:
        """Return the layout of rows that are known by their key alone; None: there is no table."""
        identity = name, tuple(key), id(schema)
        known = self._keyed.get(identity)
        if known is None:
            table = self._tables.columns(name)
            if table is None:
                return None
            if any(own not in table for own in key):
                raise BadValue("the target's table has not all columns of its key")
            converters = {own: self._converter(own, table[own], schema) for own in key}
            _make_room(self._keyed)
            # The schema is kept too, so that its identity stays its own.
            known = schema, self._make(name, tuple(key), tuple(key), converters)
            self._keyed[identity] = known
        return known[1]

    def whole(self, name: TableName) -> RowLayout | None:
        """Return a layout of all columns of a table; None: there is no table."""
        table = self._tables.columns(name)
        if table is None:
            return None
        return self._make(name, tuple(table), (), dict.fromkeys(table, plain_text))

    def forget(self) -> None:
        """Look at the tables again."""
        self._made.clear()
        self._keyed.clear()
        self._described.clear()
        self._unusable.clear()
        self._tables.forget()

    def _look_again(self) -> None:
        """Look at the tables again, which may have other columns since: not for each record."""
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            self._tables.forget()

    def _converter(self, name: str, column: FoundColumn, schema: Field | None) -> Converter:
        part = None if schema is None else schema.part(name)
        return column_converter(column.type, self._modes) if part is None else _column(part)[1]

    def _make(
        self,
        name: TableName,
        columns: tuple[str, ...],
        key: tuple[str, ...],
        converters: Mapping[str, Converter],
        required: Collection[str] = (),
    ) -> RowLayout:
        oid = self._oids.get(name)
        if oid is None:
            oid = self._oids[name] = next(self._numbers)
        # Without a key the whole row tells rows apart.
        relation = writing.relation(oid, name, columns, key or columns)
        printers = tuple((own, converters[own], own in key, own in required) for own in columns)
        return RowLayout(name, oid, columns, key, printers, relation)


def _make_room(kept: dict[Any, Any]) -> None:
    if len(kept) >= _KEPT:
        kept.clear()


def _column(field: Field) -> tuple[str, Converter]:
    try:
        return type_and_converter(field)
    except (BadValue, ValueError, KeyError) as exc:
        raise BadValue(f'column "{field.name}": {exc}') from exc
