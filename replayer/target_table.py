"""What the target says about the tables whose changes arrive, asked once for each."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, replace
from typing import TypeGuard
from weakref import WeakKeyDictionary

from pgrepl.decoding.payload import TableName
from pgrepl.decoding.shape import Column, Shape
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.store.copy_start import CopyStart
from pgrepl.store.parked import keep_parked
from pgrepl.store.tables import TargetTable, find_target_table, read_versions

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

    @property
    def is_applied(self) -> bool:
        """Whether changes are applied now."""
        return self.is_copied and not self.is_parked


@dataclass(frozen=True, slots=True)
class _Known:
    """What a session has read of a table, and the version of the table that it goes by."""

    version: str
    row: TargetTable
    shape: Shape


#: What each session knows of the tables of a source, for as long as it lasts: versions mean nothing
#: to a server that was restored from a backup.
_known: MutableMapping[Connection, dict[tuple[int, TableName], _Known]] = WeakKeyDictionary()


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
        self._relies_on_known = relies_on_known
        self._tables: dict[TableName, Table] = {}
        #: Looked up, and not checked yet.
        self._unchecked: dict[TableName, str] = {}

    def look_up(self, name: TableName) -> Table:
        """Return a table."""
        table = self._tables.get(name)
        if table is None:
            table = self._recall(name) or self._read(name)
            self._tables[name] = table
        return table

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
            del _known[self._connection][self._source_id, name]
        return not changed

    def _recall(self, name: TableName) -> Table | None:
        """Return what the session knows of a table already."""
        if not self._relies_on_known:
            return None
        known = _known.setdefault(self._connection, {}).get((self._source_id, name))
        if known is None:
            return None
        self._unchecked[name] = known.version
        return self._table(name, known.row, known.shape)

    def _read(self, name: TableName) -> Table:
        # Before the table itself: what happens in between makes it another one.
        wanted = [name] if self._relies_on_known else []
        versions = read_versions(self._connection, self._source_id, wanted) if wanted else {}
        row, table = self._query(name)
        if self._ignores_parking:
            return replace(table, is_parked=False)
        if table.is_parked and not keep_parked(self._connection, self._source_id, name):
            # Somebody worked it off in this moment.
            return self._query(name)[1]
        if row is not None and name in versions and table.is_applied and _is_lasting(table.shape):
            _known[self._connection][self._source_id, name] = _Known(
                versions[name], row, table.shape
            )
        return table

    def _query(self, name: TableName) -> tuple[TargetTable | None, Table]:
        row = find_target_table(self._connection, self._source_id, name)
        if row is None:
            # DDL that waits may be what would have made it, or given it this name.
            is_parked = keep_parked(self._connection, self._source_id, name)
            return None, Table(name, is_copied=False, is_parked=is_parked, start=None, shape=None)
        shape = None
        if row.relkind is not None and row.target_schema is not None:
            shape = Shape(
                schema=row.target_schema,
                name=name[1],
                relkind=row.relkind,
                columns=tuple(Column(**column) for column in row.columns),
                key=tuple(row.key),
            )
        return row, self._table(name, row, shape)

    def _table(self, name: TableName, row: TargetTable, shape: Shape | None) -> Table:
        is_copied = row.state == "ready"
        start = None
        if is_copied and row.start_lsn is not None and row.start_lsn > self._first_lsn:
            start = CopyStart(row.start_lsn, row.start_snapshot)
        return Table(name, is_copied, row.is_parked, start, shape)


def _is_lasting(shape: Shape | None) -> TypeGuard[Shape]:
    """Whether a version tells all that can change: not what stands below a type of its columns."""
    return shape is not None and not any(
        column.stage_type or column.equality_schema for column in shape.columns
    )
