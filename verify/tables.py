"""The tables of both sides, and how the rows of one are told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pgrepl.catalog.unique_keys import UniqueKey, find_row_key, read_unique_keys
from pgrepl.config.rules import Mask, Rules
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["Column", "Subject", "Table", "make_subject", "read_details", "with_masks"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, as far as a comparison needs it."""

    name: str
    type: str
    type_schema: str
    type_name: str
    is_not_null: bool
    is_generated: bool
    #: Whether every server orders its values the same way. Text is not among those types: its
    #: order is the collation's, and that differs between systems.
    is_ordered_alike: bool
    #: Whether its type's "=" can be named; else its text is compared.
    is_comparable: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table on one of the sides."""

    schema: str
    name: str
    is_partitioned: bool
    row_estimate: int
    columns: tuple[Column, ...]
    unique_keys: tuple[UniqueKey, ...]
    #: On the source: of the columns that reach the target masked.
    masks: tuple[tuple[str, Mask], ...] = ()
    #: On the source: the condition of the rows that reach the target; empty: all do.
    where: str = ""

    def mask(self, name: str) -> Mask | None:
        """Return the mask of a column."""
        return dict(self.masks).get(name)

    @property
    def key(self) -> tuple[str, str]:
        """Schema and name."""
        return self.schema, self.name

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def keys(self) -> Sequence[tuple[str, ...]]:
        """The columns of its unique keys, the primary key first."""
        return [key.columns for key in self.unique_keys]

    @property
    def primary_key(self) -> tuple[str, ...] | None:
        """The columns of its primary key."""
        return next((key.columns for key in self.unique_keys if key.is_primary), None)

    @property
    def row_key(self) -> tuple[str, ...] | None:
        """The columns that tell its rows apart."""
        key = find_row_key(self.unique_keys)
        return None if key is None else key.columns


@dataclass(frozen=True, slots=True)
class Subject:
    """A table on both sides, with what is compared of it."""

    source: Table
    target: Table
    #: The columns that both have, by name.
    columns: tuple[str, ...]
    #: None: rows are told apart by nothing but themselves.
    key: tuple[str, ...] | None
    #: Whether its key cuts the table into the same ranges on both sides, by an index.
    has_ranges: bool

    @property
    def name(self) -> str:
        """The table's name on the source."""
        return f"{self.source.schema}.{self.source.name}"


def make_subject(source: Table, target: Table) -> Subject:
    """Decide how a table is compared."""
    there = {column.name for column in target.columns}
    columns = tuple(column.name for column in source.columns if column.name in there)
    key = source.row_key
    if key is not None and (not set(key) <= set(columns) or any(map(source.mask, key))):
        key = None
    has_ranges = (
        key is not None
        and all(source.column(name).is_ordered_alike for name in key)
        and all(source.column(name).type_name == target.column(name).type_name for name in key)
        and key in target.keys
    )
    return Subject(source, target, columns, key, has_ranges)


def read_details(connection: Connection, schemas: Iterable[str]) -> Mapping[tuple[str, str], Table]:
    """Read the tables of some schemas, by schema and name."""
    rows = connection.execute(
        load_query("pgrepl.verify", "tables"), {"schemas": list(schemas)}
    ).fetchall()
    keys = read_unique_keys(connection, [row[0] for row in rows])
    tables = [_table(row, keys.get(row[0], ())) for row in rows]
    return {table.key: table for table in tables}


def with_masks(
    tables: Mapping[tuple[str, str], Table], rules: Rules
) -> dict[tuple[str, str], Table]:
    """Return tables of the source with the masks of their columns, without those omitted."""
    return {key: _with_rules(table, rules) for key, table in tables.items()}


def _with_rules(table: Table, rules: Rules) -> Table:
    omitted = rules.omitted(*table.key)
    return replace(
        table,
        where=rules.where(*table.key),
        masks=tuple(sorted(rules.resolved_masks(*table.key).items(), key=_name)),
        columns=tuple(column for column in table.columns if column.name not in omitted),
        unique_keys=tuple(key for key in table.unique_keys if omitted.isdisjoint(key.columns)),
    )


def _name(item: tuple[str, Mask]) -> str:
    return item[0]


def _table(row: Sequence[Any], keys: Sequence[UniqueKey]) -> Table:
    _, schema, name, is_partitioned, row_estimate, columns = row
    return Table(
        schema=schema,
        name=name,
        is_partitioned=is_partitioned,
        row_estimate=row_estimate,
        columns=tuple(Column(**column) for column in columns),
        unique_keys=tuple(keys),
    )
