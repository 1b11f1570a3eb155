"""What the target says about the tables whose changes arrive, asked once for each."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from dataclasses import dataclass, field, replace
from typing import TypeGuard
from weakref import WeakKeyDictionary

from pgrepl.decoding.payload import TableName
from pgrepl.decoding.shape import Column, Shape
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.foreign_names import is_name
from pgrepl.store.parked import keep_parked
from pgrepl.store.progress.receive_progress import read_tables_in
from pgrepl.store.tables.copy_start import CopyStart
from pgrepl.store.tables.target_tables import (
    TargetTable,
    find_target_table,
    read_target_tables,
    read_versions,
)

__all__ = ["Table", "TableName", "Tables"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the source as replay treats it."""

    name: TableName
    #: Whether there is a whole copy that changes can be applied to.
    is_copied: bool
    is_parked: bool
    start: CopyStart | None
    #: None when the target has no such table.
    shape: Shape | None
    #: Whether it is copied in chunks meanwhile, which may contain changes already.
    is_in_chunks: bool = False

    @property
    def is_applied(self) -> bool:
        """Whether changes are applied now, as they come."""
        return self.is_copied and not self.is_parked and not self.is_in_chunks

    @property
    def is_live(self) -> bool:
        """Whether changes are applied now as far as chunks do not contain them."""
        return self.is_copied and not self.is_parked and self.is_in_chunks


@dataclass(frozen=True, slots=True)
class _Known:
    """What a session has read of a table, and the version of the table that it goes by."""

    version: str
    row: TargetTable
    shape: Shape


@dataclass(frozen=True, slots=True)
class _Knowledge:
    """What a session knows of the tables of sources, and of which buckets it has listed them."""

    tables: dict[tuple[int, TableName], _Known] = field(default_factory=dict)
    buckets: set[tuple[int, int]] = field(default_factory=set)
    #: By source, the tables of these buckets that were listed and not read yet.
    unread: dict[int, list[TableName]] = field(default_factory=dict)


#: For as long as a session lasts: versions mean nothing to a server restored from a backup.
_knowledge: MutableMapping[Connection, _Knowledge] = WeakKeyDictionary()

#: The most tables that are read at once before their changes are seen.
_AHEAD = 500
#: How many are read with the first that was not; with each one after it twice as many, up to those.
_FEW_AHEAD = 8


class Tables:
    """The tables of one source, as they are seen in one target transaction."""

    def __init__(
        self,
        connection: Connection,
        source_id: int,
        first_lsn: Position,
        *,
        ignores_parking: bool = False,
        relies_on_known: bool = False,
    ) -> None:
        """Ask through this connection; no change lies before ``first_lsn``.

        Whoever relies on what the session knows calls ``is_current`` before anything comes of it.
        """
        self._connection = connection
        self._source_id = source_id
        self._first_lsn = first_lsn
        self._ignores_parking = ignores_parking
        self._known = _knowledge.setdefault(connection, _Knowledge()) if relies_on_known else None
        self._tables: dict[TableName, Table] = {}
        #: Looked up, and not checked yet.
        self._unchecked: dict[TableName, str] = {}
        self._ahead_count = _FEW_AHEAD

    def look_up(self, name: TableName) -> Table:
        """Return a table."""
        table = self._tables.get(name)
        if table is None:
            table = self._recall(name) or self._foreign(name) or self._read_with_others(name)
            self._tables[name] = table
        return table

    def _foreign(self, name: TableName) -> Table | None:
        """Return a table whose name the target cannot have; nothing waits for it either."""
        if all(is_name(self._connection, part) for part in name):
            return None
        return Table(name, is_copied=False, is_parked=False, start=None, shape=None)

    def forget(self) -> None:
        """Ask again: DDL may have changed everything, or a table was parked."""
        self._tables.clear()

    def is_current(self) -> bool:
        """Say whether all tables are as they were looked up; those that are not are forgotten."""
        expected, self._unchecked = self._unchecked, {}
        if not expected:
            return True
        found = read_versions(self._connection, self._source_id, list(expected))
        changed = [name for name, version in expected.items() if found.get(name) != version]
        for name in changed:
            del self._tables[name]
            if self._known is not None:
                del self._known.tables[self._source_id, name]
        return not changed

    def read_ahead(self, buckets: Collection[int]) -> None:
        """Get to know the tables in some buckets, once in a session: one by one costs far more."""
        known = self._known
        if known is None:
            return
        unlisted = [bucket for bucket in buckets if (self._source_id, bucket) not in known.buckets]
        known.buckets.update((self._source_id, bucket) for bucket in unlisted)
        names = read_tables_in(self._connection, self._source_id, unlisted) if unlisted else ()
        if names:
            known.unread.setdefault(self._source_id, []).extend(names)
            self._read_next(known, _AHEAD)

    def _read_with_others(self, name: TableName) -> Table:
        """Read a table; where there are more than were read ahead, with some of those."""
        known = self._known
        if known is not None and known.unread.get(self._source_id):
            self._read_next(known, self._ahead_count, first=name)
            self._ahead_count = min(2 * self._ahead_count, _AHEAD)
        return self._recall(name) or self._read(name)

    def _read_next(self, known: _Knowledge, count: int, first: TableName | None = None) -> None:
        """Read some tables that were listed, and one that may have been."""
        unread = known.unread[self._source_id]
        names = [] if first is None else [first]
        while unread and len(names) < count:
            name = unread.pop()
            if name != first and (self._source_id, name) not in known.tables:
                names.append(name)
        if not names:
            return
        # Before the tables themselves: what happens in between makes them others.
        versions = read_versions(self._connection, self._source_id, names)
        for row in read_target_tables(self._connection, self._source_id, names):
            name = row.schema, row.table
            self._keep(versions.get(name), row, self._table(name, row, _shape(row)))

    def _keep(self, version: str | None, row: TargetTable, table: Table) -> None:
        """Have the session know a table that changes are applied to."""
        if self._known is None or version is None or not table.is_applied:
            return
        if _is_lasting(table.shape):
            self._known.tables[self._source_id, table.name] = _Known(version, row, table.shape)

    def _recall(self, name: TableName) -> Table | None:
        """Return what the session knows of a table already."""
        known = None if self._known is None else self._known.tables.get((self._source_id, name))
        if known is None:
            return None
        self._unchecked[name] = known.version
        return self._table(name, known.row, known.shape)

    def _read(self, name: TableName) -> Table:
        # Before the table itself: what happens in between makes it another one.
        version = None
        if self._known is not None:
            version = read_versions(self._connection, self._source_id, [name]).get(name)
        row, table = self._query(name)
        if self._ignores_parking:
            return replace(table, is_parked=False)
        if table.is_parked and not keep_parked(self._connection, self._source_id, name):
            # Another session worked it off in this moment.
            return self._query(name)[1]
        if row is not None:
            self._keep(version, row, table)
        return table

    def _query(self, name: TableName) -> tuple[TargetTable | None, Table]:
        row = find_target_table(self._connection, self._source_id, name)
        if row is None:
            # DDL that waits may be what would have made it, or given it this name.
            is_parked = keep_parked(self._connection, self._source_id, name)
            return None, Table(name, is_copied=False, is_parked=is_parked, start=None, shape=None)
        return row, self._table(name, row, _shape(row))

    def _table(self, name: TableName, row: TargetTable, shape: Shape | None) -> Table:
        is_copied = row.state == "ready" or row.is_joining
        start = None
        if is_copied and row.start_lsn is not None and row.start_lsn > self._first_lsn:
            start = CopyStart(row.start_lsn, row.start_snapshot)
        return Table(name, is_copied, row.is_parked, start, shape, row.is_in_chunks)


def _shape(row: TargetTable) -> Shape | None:
    if row.relkind is None or row.target_schema is None:
        return None
    return Shape(
        schema=row.target_schema,
        name=row.copy_name,
        relkind=row.relkind,
        columns=tuple(Column(**column) for column in row.columns),
        key=tuple(row.key),
    )


def _is_lasting(shape: Shape | None) -> TypeGuard[Shape]:
    """Whether a version tells all that can change: not what stands below a type of its columns."""
    return shape is not None and not any(
        column.staging_type or column.equality_schema for column in shape.columns
    )
