"""Where the changes of each table go.

A table's bucket hashes the name of its root, so that a row that moves between partitions stays in
one bucket. The catalogue of the source tells the root as it is now, which may be later than the
change in hand; what keeps the order of a table's changes is that its bucket stays what it was. So
an assignment is remembered on the target, and looked up again only after a serial segment, which
the replayer never overtakes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgrepl.config.naming import TableSelection
from pgrepl.config.rules import Mask, Rules
from pgrepl.decoding.stream import SpecialColumns, StreamDecoder
from pgrepl.store.spool.spool_format import DDL_TABLE, bucket_of

__all__ = ["CatalogueTable", "Route", "Router", "TableName"]

TableName = tuple[str, str]

_NO_RULES = Rules()


@dataclass(frozen=True, slots=True)
class CatalogueTable:
    """A row of ``postgres/sql/arriving_tables.sql``."""

    schema: str
    table: str
    root_schema: str
    root_table: str
    is_materialized_view: bool
    float_names: Sequence[str]
    not_null_float_names: Sequence[str]
    column_names: Sequence[str]


@dataclass(frozen=True, slots=True)
class Route:
    """What happens to the changes of one table."""

    name: TableName
    #: None: the table is not replicated, its changes are dropped.
    bucket: int | None
    #: The table of captured DDL, whose rows make their transaction serial.
    is_ddl: bool
    floats: SpecialColumns | None
    #: Of columns that the target never sees as they are.
    masks: Mapping[str, Mask] | None = None


class Router:
    """The routes of one source's tables."""

    def __init__(
        self,
        *,
        decoder: StreamDecoder,
        db: str,
        selection: TableSelection,
        rules: Rules = _NO_RULES,
        codec: str,
        assigned: Mapping[TableName, int],
        read_catalogue: Callable[[], Sequence[CatalogueTable]],
    ) -> None:
        """Begin with the buckets that the target remembers."""
        self._decoder = decoder
        self._db = db
        self._selection = selection
        self._rules = rules
        self._codec = codec
        self._remembered = dict(assigned)
        self._is_fixed = True
        self._read_catalogue = read_catalogue
        self._catalogue: dict[TableName, CatalogueTable] = {}
        self._routes: dict[TableName, Route] = {}
        self._fresh: dict[TableName, int] = {}
        # A command that loses a million changes says so a million times.
        self._lost: dict[str, TableName | None] = {}

    def route(self, name: TableName) -> Route:
        """Return the route of a table, asking the source about one it does not know."""
        known = self._routes.get(name)
        if known is None:
            known = self._routes[name] = self._make_route(name)
        return known

    def is_selected(self, name: TableName) -> bool:
        """Whether a table is replicated; a partition is if its root is."""
        return self._selection.matches(*self._root(name))

    def lost_table(self, text: str) -> TableName | None:
        """Split ``schema"."table`` of a warning; None when its loss is of no matter.

        That of a materialized view is none, see ``_make_route``.
        """
        if text not in self._lost:
            self._lost[text] = self._find_lost(text)
        return self._lost[text]

    def forget(self) -> None:
        """Look everything up again: what follows comes after a serial segment with DDL."""
        self._routes.clear()
        self._lost.clear()
        self._catalogue.clear()
        self._is_fixed = False

    def take_fresh(self) -> dict[TableName, int]:
        """Return the assignments that the target does not remember yet, once."""
        fresh, self._fresh = self._fresh, {}
        return fresh

    def _root(self, name: TableName) -> TableName:
        table = self._catalogue.get(name)
        # Dropped since: it stands for itself.
        return name if table is None else (table.root_schema, table.root_table)

    def _find_lost(self, text: str) -> TableName | None:
        def spelled() -> dict[str, TableName]:
            return {f'{schema}"."{table}': (schema, table) for schema, table in self._catalogue}

        name = spelled().get(text)
        if name is None:
            self._refresh()
            schema, _, table = text.partition('"."')
            name = spelled().get(text, (schema, table))
        known = self._catalogue.get(name)
        if known is not None and known.is_materialized_view:
            return None
        return name if self.is_selected(name) else None

    def _make_route(self, name: TableName) -> Route:
        if name == DDL_TABLE:
            return Route(name, 0, is_ddl=True, floats=None)
        if name not in self._catalogue:
            self._refresh()
        table = self._catalogue.get(name)
        # A materialized view is refreshed on the target, not replicated.
        is_view = table is not None and table.is_materialized_view
        if is_view or not self.is_selected(name):
            return Route(name, None, is_ddl=False, floats=None)
        floats = None
        if table is not None:
            floats = self._decoder.special_columns(
                table.float_names, table.not_null_float_names, table.column_names, self._codec
            )
        masks = self._rules.resolved_masks(*name) or None
        return Route(name, self._bucket(name), is_ddl=False, floats=floats, masks=masks)

    def _bucket(self, name: TableName) -> int:
        remembered = self._remembered.get(name)
        if remembered is not None and self._is_fixed:
            return remembered
        bucket = bucket_of(self._db, *self._root(name))
        if bucket != remembered:
            self._remembered[name] = self._fresh[name] = bucket
        return bucket

    def _refresh(self) -> None:
        self._catalogue = {(row.schema, row.table): row for row in self._read_catalogue()}
