"""Which tables a resync copies, and whether their copies can take their rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pgrepl.catalog.tables import Column, SourceTable, is_copy_of, read_columns, read_tables
from pgrepl.catalog.unreadable import Unreadable, read_unreadable_tables
from pgrepl.errors import TargetError
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.sides import Sides
from pgrepl.store.sources import read_target_schemas
from pgrepl.store.table_marks import read_marked_pending, read_needing
from pgrepl.store.tables import find_copy, read_source_oids, remove_table_row

__all__ = ["Choosing"]


class Choosing:
    """Looks at both sides for the tables of one run."""

    def __init__(self, sides: Sides) -> None:
        """Look at nothing yet."""
        self._sides = sides
        self._source = sides.source
        self._endpoint = sides.endpoint
        self._target = sides.target
        self.schemas = read_target_schemas(sides.target, sides.source_id)
        #: Tables asked for that the role may not read: they keep nobody from copying the others.
        self.unreadable: Sequence[Unreadable] = ()
        self._first: set[tuple[str, str]] = set()

    def choose(self) -> Sequence[SourceTable]:
        """Return the tables asked for, if their copies can take their rows or there are none.

        With a new partition come the others of its root that are new.
        """
        options = self._sides.options
        wanted, needing = options.tables, None
        if options.is_where_needed:
            needing = read_needing(self._target, self._sides.source_id)
        with translated(self._source.endpoint, "cannot read the catalogue"):
            possible = [
                table
                for table in read_tables(self._sides.source_session)
                if not table.is_partitioned
                and not table.is_unlogged
                and self._source.selection.matches(table.root_schema, table.root_name)
            ]
            self._first = {t.key for t in possible if self._find_copy(t) is None}
            asked = {
                table.key
                for table in possible
                if (
                    wanted.matches(*table.key) or wanted.matches(table.root_schema, table.root_name)
                )
                and (needing is None or table.key in needing)
            }
            roots = {(t.root_schema, t.root_name) for t in possible if t.key in asked & self._first}
            tables = [
                table
                for table in possible
                if table.key in asked
                or (table.key in self._first and (table.root_schema, table.root_name) in roots)
            ]
            closed = {
                item.key: item
                for item in read_unreadable_tables(
                    self._sides.source_session, self._source.selection
                )
            }
        self.unreadable = [closed[table.key] for table in tables if table.key in closed]
        tables = [table for table in tables if table.key not in closed]
        self.check_columns(tables)
        return tables

    def is_first(self, table: SourceTable) -> bool:
        """Whether the target has no copy of a table yet."""
        return table.key in self._first

    def _find_copy(self, table: SourceTable) -> int | None:
        return find_copy(
            self._target, self._sides.source_id, table.key, self.schemas.get(table.schema)
        )

    def forget_gone(self) -> Sequence[tuple[str, str]]:
        """Forget the tables asked for that lost changes and are no more, and return them.

        A table that was renamed is not among them: its copy has the old name until replay has
        renamed it too.
        """
        with translated(self._source.endpoint, "cannot read the catalogue"):
            present = {table.key for table in read_tables(self._sides.source_session)}
        marked = read_marked_pending(self._target, self._sides.source_id)
        gone = [
            (schema, table)
            for schema, table in marked
            if (schema, table) not in present
            and self._sides.options.tables.matches(schema, table)
            and not self._has_copy(schema, table)
        ]
        for key in gone:
            remove_table_row(self._target, self._sides.source_id, key)
        return gone

    def _has_copy(self, schema: str, table: str) -> bool:
        ((found,),) = self._target.execute(
            "select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname = %s and c.relname = %s)",
            (self.schemas.get(schema), table),
        ).fetchall()
        return bool(found)

    def check_columns(self, tables: Collection[SourceTable]) -> None:
        """Refuse copies that have other columns, or columns of other types, than the source."""
        with translated(self._source.endpoint, "cannot read the columns"):
            columns = {
                table.key: read_columns(self._sides.source_session, table.oid) for table in tables
            }
            # By now, with the locks taken: a name may have gone to another table.
            named = {table.key: table.oid for table in read_tables(self._sides.source_session)}
        oids = read_source_oids(self._target, self._sides.source_id)
        for table in tables:
            if self.is_first(table):
                continue
            expected = oids.get(table.key, table.oid)
            if not (named.get(table.key) == table.oid == expected):
                raise TargetError(
                    f"{self._endpoint}: {table} is another table on the source than its copy is of",
                    hint="Let replay apply the DDL that renames or drops the copy.",
                )
            self._check_columns(table, columns[table.key])

    def _check_columns(self, table: SourceTable, columns: Sequence[Column]) -> None:
        copy = self._find_copy(table)
        if copy is None:
            raise TargetError(
                f"{self._endpoint}: the copy of {table} was dropped meanwhile",
                hint="Run the same command again.",
            )
        if not is_copy_of(columns, read_columns(self._target, copy)):
            raise TargetError(
                f"{self._endpoint}: the copy of {table} has other columns than the table",
                hint="Let replay apply the DDL that waits, or give it the source's columns.",
            )
