"""Where the changes of each table go.

A table's bucket hashes the name of its root, so that a row that moves between partitions stays in
one bucket. The catalogue of the source tells the root as it is now, which may be later than the
change in hand; what keeps the order of a table's changes is that its bucket stays what it was. So
an assignment is remembered on the target, and looked up again only after a serial segment, which
the replayer never overtakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pgrepl.config.naming import TableSelection
from pgrepl.config.rules import Mask, Rules
from pgrepl.decoding.stream import SpecialColumns, StreamDecoder
from pgrepl.store.spool.spool_format import DDL_TABLE, bucket_of

__all__ = ["CatalogueTable", "Route", "Router", "RowFilter", "TableName"]

TableName = tuple[str, str]

_NO_RULES = Rules()
_XIDS = 1 << 32


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
    #: The transaction that last gave it or its schema a name; None: one of long ago.
    named_xid: int | None

    def age_in(self, xid: int) -> int:
        """Return how many transactions before another one it got its name; below 0: after it."""
        if self.named_xid is None:
            return _XIDS
        return (xid - self.named_xid + _XIDS // 2) % _XIDS - _XIDS // 2


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
    #: The condition of the rows that reach the target; empty: all do.
    where: str = ""
    #: Whether it holds for other transactions too, until DDL comes.
    is_lasting: bool = True

    @property
    def has_rules(self) -> bool:
        """Whether its changes do not reach the target as they are."""
        return self.masks is not None or bool(self.where)


class RowFilter(Protocol):
    """What judges the changes of rows that rules filter."""

    def filter(
        self, change: bytes, name: TableName, where: str, losses: dict[TableName, str]
    ) -> bytes | None:
        """Return what of a change reaches the target; None: nothing does."""

    def forget(self) -> None:
        """Ask the source again what its tables are like."""


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
        replicated: Iterable[TableName] = (),
        read_catalogue: Callable[[], Sequence[CatalogueTable]],
        row_filter: RowFilter | None = None,
        read_replicated: Callable[[], Iterable[TableName]] | None = None,
    ) -> None:
        """Begin with the buckets that the target remembers, and the tables that it has.

        ``read_replicated``: what the source had under a name that it has no longer, or gave it just
        now, is only taken for a table if DDL said so, or the target, which this asks. It may have
        been a materialized view, whose rows are those of tables with rules.
        """
        self._decoder = decoder
        self._db = db
        self._selection = selection
        self._rules = rules
        self._codec = codec
        self._remembered = dict(assigned)
        # Names that tables of the selection have, or had: partitions go by names of others.
        self._selected = {*assigned, *replicated}
        self._unlearned: set[TableName] = set()
        self._is_fixed = True
        self._read_catalogue = read_catalogue
        self._row_filter = row_filter
        self._read_replicated = read_replicated
        self._catalogue: dict[TableName, CatalogueTable] = {}
        self._routes: dict[TableName, Route] = {}
        # Of the transaction in hand alone.
        self._passing: dict[TableName, Route] = {}
        self._passing_begin = b""
        self._fresh: dict[TableName, int] = {}
        # A command that loses a million changes says so a million times.
        self._spelled: dict[str, TableName] = {}

    def route(self, name: TableName, begin: bytes, *, is_looked_up: bool = False) -> Route:
        """Return the route of a table, asking the source about one it does not know.

        ``begin``: the message that began the transaction in hand.
        """
        known = self._routes.get(name)
        if known is not None:
            return known
        if begin != self._passing_begin:
            self._passing, self._passing_begin = {}, begin
        known = self._passing.get(name)
        if known is None:
            if name not in self._catalogue and name != DDL_TABLE and not is_looked_up:
                self._refresh()
            known = self._make_route(name, begin)
            (self._routes if known.is_lasting else self._passing)[name] = known
        return known

    def apply_rules(
        self, change: bytes, route: Route, losses: dict[TableName, str]
    ) -> bytes | None:
        """Return what of a change of one row reaches the target; None: nothing does."""
        if route.where:
            if self._row_filter is None:
                raise AssertionError("rules that filter rows have a filter")
            kept = self._row_filter.filter(change, route.name, route.where, losses)
            if kept is None:
                return None
            change = kept
        if route.masks is not None:
            change = self._decoder.mask(change, route.masks, self._codec)
        return change

    def learn(self, name: TableName, root: TableName) -> None:
        """Know a table as DDL left it, whatever the source calls it by now."""
        if self._selection.matches(*root) and name not in self._selected:
            self._selected.add(name)
            self._unlearned.discard(name)
            # Whoever receives after this one knows it too.
            self._remembered[name] = self._fresh[name] = bucket_of(self._db, *root)
            self._forget_route(name)

    def unlearn(self, name: TableName) -> None:
        """Know that no table has a name any longer."""
        self._selected.discard(name)
        self._unlearned.add(name)
        self._forget_route(name)

    def _is_selected(self, name: TableName, age: int) -> bool:
        """Whether a table is replicated; a partition is if its root is.

        The source tells what has the name now. A transaction from before that, or of that, may mean
        a table that has another one now, or was dropped.
        """
        if age <= 0 and name in self._selected:
            return True
        if age <= 0 and self._read_replicated is not None:
            self._selected.update(set(self._read_replicated()) - self._unlearned)
            return name in self._selected
        return self._selection.matches(*(name if age < 0 else self._root(name)))

    def lost_table(self, text: str, begin: bytes | None) -> TableName | None:
        """Split ``schema"."table`` of a warning; None when its loss is of no matter.

        That of a materialized view is none, see ``_make_route``. Without a transaction, because the
        warning came before its place, it matters if any table that had the name may be replicated.
        """
        is_new = text not in self._spelled
        if is_new:
            self._spelled[text] = self._find_spelled(text)
        name = self._spelled[text]
        if begin is None:
            return name if self._may_be_selected(name) else None
        return None if self.route(name, begin, is_looked_up=is_new).bucket is None else name

    def may_lose(self, severity: str, text: str) -> bool:
        """Whether a notice before its place says that a change may not have been sent."""
        lost = self._decoder.lost_table(text) if severity == "WARNING" else None
        return lost is not None and self.lost_table(lost, None) is not None

    def _may_be_selected(self, name: TableName) -> bool:
        if name in self._selected:
            return True
        table = self._catalogue.get(name)
        if table is not None and table.is_materialized_view:
            return False
        return any(self._selection.matches(*own) for own in (name, self._root(name)))

    def forget(self) -> None:
        """Look everything up again: what follows comes after a serial segment with DDL."""
        self._routes.clear()
        self._passing.clear()
        if self._row_filter is not None:
            self._row_filter.forget()
        self._spelled.clear()
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

    def _find_spelled(self, text: str) -> TableName:
        def spelled() -> dict[str, TableName]:
            return {f'{schema}"."{table}': (schema, table) for schema, table in self._catalogue}

        name = spelled().get(text)
        if name is None:
            self._refresh()
            schema, _, table = text.partition('"."')
            name = spelled().get(text, (schema, table))
        return name

    def _make_route(self, name: TableName, begin: bytes) -> Route:
        if name == DDL_TABLE:
            return Route(name, 0, is_ddl=True, floats=None)
        table = self._catalogue.get(name)
        age = 0 if table is None else table.age_in(self._decoder.transaction(begin).xid)
        # A materialized view is refreshed on the target, not replicated. Changes of a transaction
        # before it had the name, or of that one, may be a table's.
        is_view = age > 0 and table is not None and table.is_materialized_view
        if is_view or not self._is_selected(name, age):
            is_lasting = age > 0 or self._read_replicated is None
            return Route(name, None, is_ddl=False, floats=None, is_lasting=is_lasting)
        floats = None
        if table is not None:
            floats = self._decoder.special_columns(
                table.float_names, table.not_null_float_names, table.column_names, self._codec
            )
        masks = self._rules.resolved_masks(*name) or None
        where = self._rules.where(*name)
        bucket = self._bucket(name)
        return Route(name, bucket, is_ddl=False, floats=floats, masks=masks, where=where)

    def _forget_route(self, name: TableName) -> None:
        self._routes.pop(name, None)
        self._passing.pop(name, None)

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
