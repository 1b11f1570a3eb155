"""What the target says about the tables whose changes arrive, asked once for each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pgrepl.decoding.payload import TableName
from pgrepl.decoding.shape import Column, Shape
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.store.copy_start import CopyStart
from pgrepl.store.parked import keep_parked
from pgrepl.store.tables import find_target_table

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


class Tables:
    """The tables of one source, as they are seen in one target transaction."""

    def __init__(
        self,
        connection: Connection,
        source_id: int,
        first_lsn: Position,
        *,
        ignores_parking: bool = False,
    ) -> None:
        """Ask through this connection; no change lies before ``first_lsn``."""
        self._connection = connection
        self._source_id = source_id
        self._first_lsn = first_lsn
        self._ignores_parking = ignores_parking
        self._known: dict[TableName, Table] = {}

    def look_up(self, name: TableName) -> Table:
        """Return a table."""
        table = self._known.get(name)
        if table is None:
            table = self._known[name] = self._read(name)
        return table

    def forget(self) -> None:
        """Ask again: DDL may have changed everything, or a table was parked."""
        self._known.clear()

    def _read(self, name: TableName) -> Table:
        table = self._query(name)
        if self._ignores_parking:
            return replace(table, is_parked=False)
        if table.is_parked and not keep_parked(self._connection, self._source_id, name):
            # Somebody worked it off in this moment.
            return self._query(name)
        return table

    def _query(self, name: TableName) -> Table:
        _, table = name
        row = find_target_table(self._connection, self._source_id, name)
        if row is None:
            # DDL that waits may be what would have made it, or given it this name.
            is_parked = keep_parked(self._connection, self._source_id, name)
            return Table(name, is_copied=False, is_parked=is_parked, start=None, shape=None)
        is_copied = row.state == "ready"
        start = None
        if is_copied and row.start_lsn is not None and row.start_lsn > self._first_lsn:
            start = CopyStart(row.start_lsn, row.start_snapshot)
        shape = None
        if row.relkind is not None and row.target_schema is not None:
            shape = Shape(
                schema=row.target_schema,
                name=table,
                relkind=row.relkind,
                columns=tuple(Column(**column) for column in row.columns),
                key=tuple(row.key),
            )
        return Table(name, is_copied, row.is_parked, start, shape)
