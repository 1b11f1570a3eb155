"""Changes of rows that rules filter: what of them reaches the target.

A condition is evaluated by the source itself, as in a copy, over the values that a change carries:
of its old row and of its new one. A row that the condition becomes true for is inserted on the
target, one that it is true for no longer is deleted. Where nobody can say, the change is not kept,
and its table is marked.

Types are those that the source has now. Where a column had another one when the change was made,
DDL about it is still to come, after which the table is copied again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.sql import SQL, Composable, Composed, Identifier

from pgrepl.config.model import SourceConfig
from pgrepl.decoding.stream import StreamDecoder
from pgrepl.masking import condition
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.receiver.routing import TableName
from pgrepl.store.rules import INCOMPLETE_ROW, UNJUDGED_ROW
from pgrepl.syntax.filters import filter_columns

__all__ = ["RowFilter"]

#: The number of answers that are remembered.
_ANSWERS = 100_000

_Values = Mapping[str, bytes | None]


@dataclass(frozen=True, slots=True)
class _Table:
    """A filtered table, as the source has it now."""

    #: Those that the condition reads.
    columns: tuple[str, ...]
    statement: Composed
    #: What its changes carry when they carry whole rows.
    stored: frozenset[str]


class RowFilter:
    """Filters changes; it keeps a session on the source."""

    def __init__(self, config: SourceConfig, decoder: StreamDecoder, codec: str) -> None:
        """Prepare; nothing is connected yet."""
        self._config = config
        self._decoder = decoder
        self._codec = codec
        self._session: Connection | None = None
        self._tables: dict[TableName, _Table | None] = {}
        self._answers: dict[tuple[Any, ...], bool | None] = {}

    def forget(self) -> None:
        """Ask the source again what its tables are like."""
        self._tables.clear()
        self._answers.clear()

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            self._session.close()

    def filter(
        self, change: bytes, name: TableName, where: str, losses: dict[TableName, str]
    ) -> bytes | None:
        """Return what of a change reaches the target; None: nothing does."""
        row = self._decoder.changed_row(change, self._codec)
        was: bool | None = False
        is_now: bool | None = False
        if row.old is not None:
            was = self._is_true(name, where, row.old)
        if row.new is not None:
            # What it does not carry of the new row is as in the old one.
            is_now = self._is_true(name, where, {**(row.old or {}), **row.new})
        if was is None or is_now is None:
            losses.setdefault(name, UNJUDGED_ROW)
            return None
        if row.old is None or row.new is None or was == is_now:
            return change if was or is_now else None
        if was:
            return self._decoder.as_delete(change)
        table = self._tables[name]
        stored = frozenset[str]() if table is None else table.stored
        inserted = self._decoder.as_insert(change, stored, self._codec)
        if inserted is None:
            losses.setdefault(name, INCOMPLETE_ROW)
        return inserted

    def _is_true(self, name: TableName, where: str, values: _Values) -> bool | None:
        """Return whether the condition is true for a row; None: that cannot be said."""
        if name not in self._tables:
            self._tables[name] = self._read_table(name, where)
        table = self._tables[name]
        if table is None or not values.keys() >= set(table.columns):
            return None
        given = tuple(values[column] for column in table.columns)
        key = (name, *given)
        if key not in self._answers:
            if len(self._answers) >= _ANSWERS:
                self._answers.clear()
            self._answers[key] = self._ask(table, given)
        return self._answers[key]

    def _ask(self, table: _Table, values: tuple[bytes | None, ...]) -> bool | None:
        session = self._connected()
        with translated(self._config.endpoint, "cannot filter rows"):
            try:
                ((is_true,),) = session.execute(table.statement, values, prepare=True).fetchall()
            except psycopg.Error as exc:
                if exc.sqlstate is None or session.closed:
                    raise
                # A value of a type that the column has no longer, or that the condition fails for.
                return None
        return is_true is True

    def _read_table(self, name: TableName, where: str) -> _Table | None:
        columns = tuple(sorted(filter_columns(where)))
        session = self._connected()
        with translated(self._config.endpoint, "cannot read a table that is filtered"):
            rows = session.execute(
                "select a.attname::text, format_type(a.atttypid, a.atttypmod)"
                " from pg_attribute a join pg_class c on c.oid = a.attrelid"
                " join pg_namespace n on n.oid = c.relnamespace"
                " where n.nspname = %s and c.relname = %s and a.attnum > 0"
                " and not a.attisdropped and a.attgenerated <> 'v'",
                name,
            ).fetchall()
        types: dict[str, str] = dict(rows)
        if not types.keys() >= set(columns):
            return None
        return _Table(columns, _statement(where, columns, types), frozenset(types))

    def _connected(self) -> Connection:
        if self._session is None or self._session.closed:
            self._session = connect(self._config.endpoint, "receive")
        return self._session


def _statement(where: str, columns: tuple[str, ...], types: Mapping[str, str]) -> Composed:
    """Return what evaluates a condition over texts in the encoding of the source."""
    values = [
        SQL("convert_from(%b, getdatabaseencoding())::{} as {}").format(
            _escaped(SQL(types[name])), _escaped(Identifier(name))
        )
        for name in columns
    ]
    return SQL("select {} from (select {}) as r").format(
        _escaped(condition(where)), SQL(", ").join(values)
    )


def _escaped(part: Composable) -> SQL:
    """Return SQL that stands beside placeholders."""
    return SQL(part.as_string(None).replace("%", "%%"))
