"""Which tables a resync copies, and whether their copies can take their rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pgrepl.catalog.names import relation_exists
from pgrepl.catalog.tables import Column, SourceTable, is_copy_of, read_columns, read_tables
from pgrepl.catalog.unreadable import Unreadable, read_unreadable_tables
from pgrepl.config.naming import shown_name
from pgrepl.config.rules import Rules
from pgrepl.ddl_capture.missed import is_behind
from pgrepl.errors import SourceChanged, TargetError
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.sides import Sides
from pgrepl.store.parked_ddl import find_group
from pgrepl.store.tables.places import read_places
from pgrepl.store.tables.source_tables import find_copy, read_source_oids, remove_table_row
from pgrepl.store.tables.table_marks import read_marked_pending, read_needing
from pgrepl.store.tables.unselected import find_unselected

__all__ = ["Choosing", "DdlPendingError"]


class DdlPendingError(TargetError):
    """A copy is not what its table is, and DDL that is not applied yet may be why."""


class Choosing:
    """Looks at both sides for the tables of one run."""

    def __init__(self, sides: Sides) -> None:
        """Look at nothing yet."""
        self._sides = sides
        self._source = sides.source
        self._endpoint = sides.endpoint
        self._target = sides.target
        self.places = read_places(sides.target, sides.source_id)
        #: Tables asked for that the role may not read: they keep nobody from copying the others.
        self.unreadable: Sequence[Unreadable] = ()
        self._first: set[tuple[str, str]] = set()
        #: Partitioned tables asked for that have no partition and that the target has not.
        self.empty_roots: Sequence[SourceTable] = ()
        #: Which relations of the source the copies were noted to be of, when this began.
        self._noted = read_source_oids(sides.target, sides.source_id)
        #: Which ones they are taken for.
        self._oids = dict(self._noted)
        #: Tables whose copies have other columns, and the other partitions of their roots.
        self._remade: set[tuple[str, str]] = set()

    def choose(self) -> Sequence[SourceTable]:
        """Return the tables asked for.

        With a new partition come the others of its root that are new; with one whose copy has other
        columns all others, as they have the columns of one table.
        """
        options = self._sides.options
        wanted, needing = options.tables, None
        if options.is_where_needed:
            needing = read_needing(self._target, self._sides.source_id)
        with translated(self._source.endpoint, "cannot read the catalogue"):
            selected = [
                table
                for table in read_tables(self._sides.source_session, self._source.rules)
                if not table.is_unlogged
                and self._source.selection.matches(table.root_schema, table.root_name)
            ]
            possible = [table for table in selected if not table.is_partitioned]
            filled = {_root(table) for table in possible}
            self.empty_roots = [
                table
                for table in selected
                if table.key == _root(table)
                and table.is_partitioned
                and table.key not in filled
                and wanted.matches(*table.key)
                and (needing is None or table.key in needing)
                and self._find_copy(table) is None
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
            self._check_names([t for t in possible if t.key in asked])
            remade = self._find_remade([t for t in possible if t.key in asked])
            roots = {_root(t) for t in possible if t.key in asked & self._first}
            self._remade = {
                t.key for t in possible if _root(t) in remade and t.key not in self._first
            }
            tables = [
                table
                for table in possible
                if table.key in asked
                or _root(table) in remade
                or (table.key in self._first and _root(table) in roots)
            ]
            closed = {
                item.key: item
                for item in read_unreadable_tables(
                    self._sides.source_session, self._source.selection
                )
            }
        self.unreadable = [closed[table.key] for table in tables if table.key in closed]
        return [table for table in tables if table.key not in closed]

    def _check_names(self, tables: Sequence[SourceTable]) -> None:
        """Refuse tables that are about to get their names here.

        Raises
        ------
        DdlPendingError
            naming one whose copy has another name until DDL that waits is applied.

        """
        copies = {oid: key for key, oid in self._oids.items()}
        renamed = [table for table in tables if copies.get(table.oid, table.key) != table.key]
        if renamed and (self._is_ddl_awaited() or self._is_any_ddl_parked(copies, renamed)):
            raise DdlPendingError(
                f"{self._endpoint}: the copy of {renamed[0]} is still called"
                f" {shown_name(*copies[renamed[0].oid])} here",
                hint="Let replay apply the DDL that renames it, and run the same command again.",
            )

    def _find_remade(self, tables: Sequence[SourceTable]) -> set[tuple[str, str]]:
        """Return the roots of tables whose copies have other columns.

        Raises
        ------
        DdlPendingError
            when DDL that waits in the stream may be about to give them the source's.

        """
        differing = self._differing([t for t in tables if not self.is_first(t)])
        if differing and self._is_ddl_awaited():
            error = next(iter(differing.values()))
            raise DdlPendingError(error.message, hint=error.hint)
        # Nothing will rename or drop their copies: those are what was left of other tables.
        self._oids |= {table.key: table.oid for table in tables if table.key in differing}
        differing = self._differing([t for t in tables if t.key in differing])
        return {_root(table) for table in tables if table.key in differing}

    def _is_ddl_awaited(self) -> bool:
        """Whether captured DDL is not applied yet."""
        sides = self._sides
        with translated(self._source.endpoint, "cannot look for DDL that waits"):
            return is_behind(sides.source_session, self._target, sides.row, sides.options.ddl_seen)

    def _is_any_ddl_parked(
        self, copies: Mapping[int, tuple[str, str]], tables: Sequence[SourceTable]
    ) -> bool:
        """Whether captured DDL waits with the copies of tables, by what those are called."""
        source_id = self._sides.source_id
        groups = [find_group(self._target, source_id, copies[table.oid]) for table in tables]
        return any(group.group_id is not None for group in groups)

    def is_first(self, table: SourceTable) -> bool:
        """Whether the target has no copy of a table yet."""
        return table.key in self._first

    def is_still_called(
        self, table: SourceTable, found: Mapping[tuple[str, str], int | None]
    ) -> bool:
        """Whether the copy of a table has the name that it had, by names and OIDs of now."""
        noted = self._noted.get(table.key)
        if self.is_first(table):
            return found.get(table.key) == noted and self._find_copy(table) is None
        return table.key in found and (noted is None or found[table.key] == noted)

    def is_remade(self, table: SourceTable) -> bool:
        """Whether the copy of a table gets the source's structure with the rows."""
        return table.key in self._remade

    def _find_copy(self, table: SourceTable) -> int | None:
        return find_copy(
            self._target, self._sides.source_id, table.key, self.places.schemas.get(table.schema)
        )

    def find_passed_over(self) -> Sequence[tuple[str, str]]:
        """Return the tables asked for that were copied and that the patterns do not take in."""
        found = find_unselected(self._target, self._sides.source_id, self._source.selection)
        return [key for key in found if self._sides.options.tables.matches(*key)]

    def forget_gone(self) -> Sequence[tuple[str, str]]:
        """Forget the tables asked for that lost changes and are no more, and return them.

        A table that was renamed is not among them: its copy has the old name until replay has
        renamed it too.
        """
        with translated(self._source.endpoint, "cannot read the catalogue"):
            present = {t.key for t in read_tables(self._sides.source_session, Rules())}
        marked = read_marked_pending(self._target, self._sides.source_id)
        gone = [
            (schema, table)
            for schema, table in marked
            if (schema, table) not in present
            and self._sides.options.tables.matches(schema, table)
            and not self._has_relation((schema, table))
        ]
        for key in gone:
            remove_table_row(self._target, self._sides.source_id, key)
        return gone

    def _has_relation(self, key: tuple[str, str]) -> bool:
        place = self.places.find(key)
        return place is not None and relation_exists(self._target, *place)

    def check_columns(self, tables: Collection[SourceTable]) -> None:
        """Make sure that no table changed since it was chosen.

        Raises
        ------
        SourceChanged
            naming one that did.
        TargetError
            naming one whose copy did.

        """
        for table in self.find_changed(tables):
            raise SourceChanged(
                f"{self._source.endpoint}: table {table} was renamed, dropped or altered while the"
                " copy began",
                hint="Run the same command again.",
            )
        left = [t for t in tables if not self.is_first(t) and not self.is_remade(t)]
        for error in self._differing(left).values():
            raise error

    def find_changed(self, tables: Collection[SourceTable]) -> Sequence[SourceTable]:
        """Return the tables that are not what they were when they were chosen."""
        with translated(self._source.endpoint, "cannot read the catalogue"):
            read = read_tables(self._sides.source_session, self._source.rules)
        now = {table.oid: (table.key, table.definition) for table in read}
        return [table for table in tables if now.get(table.oid) != (table.key, table.definition)]

    def _differing(self, tables: Collection[SourceTable]) -> dict[tuple[str, str], TargetError]:
        """Return tables whose copies cannot take their rows as they are, each with why."""
        with translated(self._source.endpoint, "cannot read the columns"):
            columns = {
                table.key: read_columns(self._sides.source_session, table.oid) for table in tables
            }
            # By now, with the locks taken: a name may have gone to another table.
            named = {t.key: t.oid for t in read_tables(self._sides.source_session, Rules())}
        found: dict[tuple[str, str], TargetError] = {}
        for table in tables:
            expected = self._oids.get(table.key, table.oid)
            if not (named.get(table.key) == table.oid == expected):
                found[table.key] = TargetError(
                    f"{self._endpoint}: {table} is another table on the source than its copy is of",
                    hint="Let replay apply the DDL that renames or drops the copy.",
                )
            elif not self._is_copy_of(table, columns[table.key]):
                found[table.key] = TargetError(
                    f"{self._endpoint}: the copy of {table} has other columns than the table",
                    hint="Let replay apply the DDL that waits, and run the same command again.",
                )
        return found

    def _is_copy_of(self, table: SourceTable, columns: Sequence[Column]) -> bool:
        copy = self._find_copy(table)
        if copy is None:
            raise TargetError(
                f"{self._endpoint}: the copy of {table} was dropped meanwhile",
                hint="Run the same command again.",
            )
        return is_copy_of(columns, read_columns(self._target, copy), table.omitted)


def _root(table: SourceTable) -> tuple[str, str]:
    return table.root_schema, table.root_name
