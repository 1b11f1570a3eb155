"""Put the rows of a chunk into the live table: what differs is changed, and nothing else.

Readers see the rows as they were or as they are, none twice and none missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg import errors
from psycopg.sql import SQL, Composable, Composed, Identifier

from pgrepl.catalog.tables import SourceTable
from pgrepl.decoding.shape import Shape
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.shard.merging.keys import is_same_key
from pgrepl.store.resync.resync_chunks import KeyText

__all__ = ["ChunkRows"]

_STAGE = Identifier("pg_temp", "pgrepl_chunk")
#: What a chunk is joined with its range by: its rows fit into memory, and a sample tells enough.
_SETTINGS = ("set local work_mem = '64MB'", "set local default_statistics_target = 10")
_TAKEN = (errors.UniqueViolation, errors.ExclusionViolation)


class ChunkRows:
    """The rows of a chunk in a temporary table, as long as the transaction lasts."""

    def __init__(
        self, connection: Connection, shape: Shape, table: SourceTable, key: Sequence[str]
    ) -> None:
        """Make the temporary table."""
        self._connection = connection
        self._shape = shape
        self._table = table
        self._key = key
        self._same = is_same_key(shape, key, _prefixed("t", key), _prefixed("s", key))
        connection.execute(
            SQL(
                "create temporary table pgrepl_chunk on commit drop as"
                " select {} from only {} with no data"
            ).format(self._names(table.columns), shape.identifier)
        )

    def copy_in(self) -> Composed:
        """Return the COPY that writes them."""
        return SQL("copy {} ({}) from stdin{}").format(
            _STAGE,
            self._names(self._table.columns),
            SQL(" (format binary)" if self._table.is_plain else ""),
        )

    def last_key(self) -> KeyText:
        """Return the greatest key."""
        (row,) = self._connection.execute(
            SQL("select {} from {} s order by {} limit 1").format(
                self._texts(),
                _STAGE,
                SQL(", ").join(SQL("{} desc").format(k) for k in _prefixed("s", self._key)),
            )
        ).fetchall()
        return tuple(row)

    def put(self, scope: Composable, *, is_range: bool) -> Sequence[KeyText]:
        """Make the rows of a scope of the table these, and return the keys that had no room.

        A row has no room when one outside the scope has a value of it that is unique. That one is
        older or newer than the chunk, or not copied yet: it will not have the value in the end.
        """
        for setting in _SETTINGS:
            self._connection.execute(setting)
        self._connection.execute(SQL("analyze {}").format(_STAGE))
        self._connection.execute(
            SQL("delete from only {} t where {} and not exists (select from {} s where {})").format(
                self._shape.identifier, scope, _STAGE, self._same
            )
        )
        if is_range:
            # Or the index is read from the first key of the table on, for each chunk again.
            self._same = SQL("{} and {}").format(self._same, scope)
        try:
            with self._connection.transaction():
                self._update()
        except _TAKEN:
            self._delete_changed()
        if self._insert():
            return ()
        rows = self._connection.execute(
            SQL("select {} from {} s where {}").format(self._texts(), _STAGE, self._is_missing())
        )
        return [tuple(row) for row in rows.fetchall()]

    def _insert(self) -> bool:
        """Insert the rows that are missing, and say whether all of them had room."""
        ((count,),) = self._connection.execute(
            SQL("select count(*) from {} s where {}").format(_STAGE, self._is_missing())
        ).fetchall()
        if not count:
            return True
        names = self._names(self._table.columns)
        inserted = self._connection.execute(
            SQL(
                "insert into {} ({}) overriding system value select {} from {} s where {}"
                " on conflict do nothing"
            ).format(self._shape.identifier, names, names, _STAGE, self._is_missing())
        )
        return inserted.rowcount == int(count)

    def _update(self) -> None:
        by_name = self._shape.by_name
        fixed = [name for name in self._table.columns if by_name[name].is_identity_always]
        if not set(fixed) <= set(self._key):
            # No UPDATE can set them.
            self._delete_changed()
            return
        names = [name for name in self._table.columns if name not in fixed]
        if names:
            values = SQL(", ").join(
                SQL("{} = s.{}").format(Identifier(name), Identifier(name)) for name in names
            )
            self._connection.execute(
                SQL("update only {} t set {} from {} s where {} and {}").format(
                    self._shape.identifier, values, _STAGE, self._same, self._differs()
                )
            )

    def _delete_changed(self) -> None:
        self._connection.execute(
            SQL("delete from only {} t using {} s where {} and {}").format(
                self._shape.identifier, _STAGE, self._same, self._differs()
            )
        )

    def _differs(self) -> Composable:
        """Return the condition that two rows differ in any bit: not every type has an equality."""
        columns = self._table.columns
        return SQL("row({})::record *<> row({})::record").format(
            SQL(", ").join(_prefixed("t", columns)), SQL(", ").join(_prefixed("s", columns))
        )

    def _is_missing(self) -> Composable:
        return SQL("not exists (select from only {} t where {})").format(
            self._shape.identifier, self._same
        )

    def _texts(self) -> Composable:
        return SQL(", ").join(SQL("{}::text").format(k) for k in _prefixed("s", self._key))

    @staticmethod
    def _names(names: Iterable[str]) -> Composable:
        return SQL(", ").join(map(Identifier, names))


def _prefixed(alias: str, names: Iterable[str]) -> list[Composable]:
    return [Identifier(alias, name) for name in names]
