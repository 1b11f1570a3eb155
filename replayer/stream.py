"""Apply lines one after the other as the source wrote them: DML, TRUNCATE and DDL in their places.

Runs of DML are folded like everything else; TRUNCATE and DDL are barriers between them. This is how
a serial segment is applied, and how a parked table's changes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from psycopg import errors
from psycopg.sql import SQL

from pgrepl.decoding.wal2json.by_table import held_by
from pgrepl.decoding.wal2json.grammar import (
    BEGIN_PREFIX,
    TRUNCATE,
    action_of,
    mark_nulls,
    names_of,
    unreadable,
)
from pgrepl.decoding.wal2json.table_changes import TableChanges
from pgrepl.postgres import Connection
from pgrepl.replayer.apply import TableFailed, told
from pgrepl.replayer.tables import Table, TableName, Tables
from pgrepl.spool import DDL_TABLE

__all__ = ["Handlers", "LineStream", "read_lines"]

_PARTITIONED = "p"


@dataclass(frozen=True, slots=True)
class Handlers:
    """What is done with the lines."""

    #: Apply lines of a table; with the begin line of the transaction of the last one.
    apply: Callable[[Table, bytes, Sequence[bytes]], None]
    #: Keep the lines of a parked table: begin line and change.
    keep: Callable[[TableName, bytes, bytes], None]
    #: Note that a table was never copied.
    note_unknown: Callable[[TableName], None]
    #: Apply a row of the table of captured DDL: begin line and change.
    apply_ddl: Callable[[bytes, bytes], None]
    #: Take it that lines of a table cannot be applied: begin line, lines and why.
    fail: Callable[[Table, bytes, Sequence[bytes], TableFailed], None]


@dataclass(frozen=True, slots=True)
class _Truncated:
    """A table that a TRUNCATE names, as far as it is to be emptied."""

    name: TableName
    begin: bytes
    line: bytes


class LineStream:
    """Takes lines in order."""

    def __init__(
        self, connection: Connection, tables: Tables, handlers: Handlers, limit_bytes: int
    ) -> None:
        """Begin with none."""
        self._connection = connection
        self._tables = tables
        self._handlers = handlers
        self._limit_bytes = limit_bytes
        self._gathered: dict[TableName, list[bytes]] = {}
        self._held: dict[TableName, Callable[[bytes], bool]] = {}
        self._size = 0
        self._begin = b""
        #: Tables that one TRUNCATE names, and where it stood.
        self._truncated: list[_Truncated] = []
        self._truncated_at = b""

    def take_payload(self, payload: bytes, change_count: int) -> None:
        """Take the lines of a row of the spool."""
        lines = payload.split(b"\n")
        found = sum(not line.startswith(BEGIN_PREFIX) for line in lines)
        if found != change_count:
            raise unreadable(f"a row should have {change_count} changes, it has {found}")
        for line in lines:
            if line.startswith(BEGIN_PREFIX):
                self._begin = line
            else:
                self._take(line)

    def finish(self) -> None:
        """Apply what is left."""
        self._truncate()
        self._flush()

    def _take(self, line: bytes) -> None:
        if action_of(line) == TRUNCATE:
            self._take_truncate(line)
            return
        if self._truncated:
            self._truncate()
        name = names_of(line)
        if name == DDL_TABLE:
            self._flush()
            self._handlers.apply_ddl(self._begin, line)
            self._tables.forget()
            self._held.clear()
            return
        table = self._tables.look_up(name)
        if table.is_parked:
            self._handlers.keep(name, self._begin, line)
        elif not table.is_copied:
            self._handlers.note_unknown(name)
        elif not self._is_held(table):
            self._gathered.setdefault(name, []).append(line)
            self._size += len(line)
            if self._size >= self._limit_bytes:
                self._flush()

    def _is_held(self, table: Table) -> bool:
        """Whether the table's copy holds the transaction already."""
        if table.start is None:
            return False
        held = self._held.get(table.name)
        if held is None:
            held = self._held[table.name] = held_by(table.start)
        return held(self._begin)

    def _take_truncate(self, line: bytes) -> None:
        """Gather the tables of one command: they may refer to one another."""
        table = self._tables.look_up(names_of(line))
        if table.is_applied and table.shape is None and not self._is_held(table):
            # It will be parked, this with it, behind what came before.
            self._flush()
            table = self._tables.look_up(table.name)
            if table.is_applied:
                self._handlers.apply(table, self._begin, [line])
                return
        position = line[line.find(b',"lsn":"') : line.find(b',"schema":"')]
        if self._truncated and position != self._truncated_at:
            self._truncate()
        self._truncated_at = position
        if table.is_parked:
            self._handlers.keep(table.name, self._begin, line)
        elif self._is_wanted(table):
            self._truncated.append(_Truncated(table.name, self._begin, line))

    def _is_wanted(self, table: Table) -> bool:
        if not table.is_applied or table.shape is None or self._is_held(table):
            return False
        # The partitions of a partitioned table are named as well.
        return table.shape.relkind != _PARTITIONED

    def _truncate(self) -> None:
        truncated, self._truncated = self._truncated, []
        if not truncated:
            return
        self._flush()
        emptied: dict[_Truncated, Table] = {}
        for each in truncated:
            # What came before may have parked it.
            table = self._tables.look_up(each.name)
            if table.is_parked:
                self._handlers.keep(each.name, each.begin, each.line)
            else:
                emptied[each] = table
        try:
            with told(None):
                _truncate(self._connection, emptied.values())
        except TableFailed:
            for each, table in emptied.items():
                self._truncate_alone(each, table)

    def _truncate_alone(self, truncated: _Truncated, table: Table) -> None:
        """Empty one table of several of which one cannot be."""
        try:
            with told(table.shape):
                _truncate(self._connection, [table])
        except TableFailed as failed:
            self._handlers.fail(table, truncated.begin, [truncated.line], failed)

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, {}
        self._size = 0
        for name, lines in gathered.items():
            self._handlers.apply(self._tables.look_up(name), self._begin, lines)


def read_lines(table: Table, lines: Sequence[bytes]) -> TableChanges:
    """Read lines of one table as the spool has them."""
    changes = TableChanges(table.name, table.shape)
    changes.take_lines([mark_nulls(line) for line in lines])
    return changes


def _truncate(connection: Connection, tables: Iterable[Table]) -> None:
    """Empty tables together: they may refer to one another; after an error none of them is."""
    shapes = [table.shape for table in tables if table.shape is not None]
    if not shapes:
        return
    names = SQL(", ").join(SQL("only {}").format(shape.identifier) for shape in shapes)
    try:
        with connection.transaction():
            connection.execute(SQL("truncate {}").format(names))
    except errors.FeatureNotSupported:
        # A table of somebody else's refers to one of them, and would have to be emptied with it.
        with connection.transaction():
            for shape in shapes:
                connection.execute(SQL("delete from only {}").format(shape.identifier))
