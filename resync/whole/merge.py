"""Put the rows of a shadow in place of a table's, in the caller's transaction.

As REFRESH MATERIALIZED VIEW CONCURRENTLY does: only rows that differ are written, the table itself
stays. So whoever reads sees the old rows until the commit and the new ones after it, with whatever
snapshot; and views, privileges, foreign keys, indexes, policies, publications, partitions and all
else that stands on the table need not be made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Composable, Composed, Identifier

from pgrepl.decoding.shape import Shape
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.shard.merging.keys import is_same_key

__all__ = ["Merged", "fill", "merge_shadow", "merge_statements"]

_DIFFERENCE = Identifier("pg_temp", "pgrepl_difference")


@dataclass(frozen=True, slots=True)
class Merged:
    """How many rows were written."""

    removed: int
    added: int


def merge_shadow(
    connection: Connection, shape: Shape, shadow: tuple[str, str], columns: Sequence[str]
) -> Merged:
    """Make the rows of a table those of its shadow."""
    *before, delete, insert = merge_statements(shape, shadow, columns)
    for statement in before:
        connection.execute(statement)
    removed = connection.execute(delete).rowcount
    added = connection.execute(insert).rowcount
    if before:
        # The next table of the same transaction has its own.
        connection.execute(SQL("drop table {}").format(_DIFFERENCE))
    return Merged(removed, added)


def fill(
    connection: Connection, table: Identifier, shadow: tuple[str, str], columns: Sequence[str]
) -> int:
    """Put the rows of a shadow into a table that has none, and return how many they are."""
    names = {"table": table, "shadow": Identifier(*shadow)}
    return connection.execute(_insert_all(names, columns)).rowcount


def merge_statements(
    shape: Shape, shadow: tuple[str, str], columns: Sequence[str]
) -> Sequence[Composed]:
    """Return the statements; the last two delete and insert. Pure."""
    names = {"table": shape.identifier, "shadow": Identifier(*shadow), "rows": _DIFFERENCE}
    if not shape.key or not set(shape.key) <= set(columns):
        # Nothing tells which row is which.
        return [
            SQL("delete from only {table}").format(**names),
            _insert_all(names, columns),
        ]
    is_same = is_same_key(shape, shape.key, _each("t", shape.key), _each("s", shape.key))
    return [
        # By their images: what the type takes for equal may be printed otherwise.
        SQL(
            "create temporary table {} on commit drop as"
            " select t.ctid as was, s.ctid as becomes from only {table} t full join {shadow} s"
            " on {is_same} where t.ctid is null or s.ctid is null"
            " or row({ours})::record operator(pg_catalog.*<>) row({theirs})::record"
        ).format(
            SQL("pgrepl_difference"),
            is_same=is_same,
            ours=_prefixed("t", columns),
            theirs=_prefixed("s", columns),
            **names,
        ),
        SQL("analyze {rows}").format(**names),
        SQL(
            "delete from only {table} t using {rows} d where t.ctid = d.was and d.was is not null"
        ).format(**names),
        _insert(
            names,
            columns,
            SQL("select {} from {rows} d join {shadow} s on s.ctid = d.becomes").format(
                _prefixed("s", columns), **names
            ),
        ),
    ]


def _insert_all(names: dict[str, Identifier], columns: Sequence[str]) -> Composed:
    query = SQL("select {} from {} s").format(_prefixed("s", columns), names["shadow"])
    return _insert(names, columns, query)


def _insert(names: dict[str, Identifier], columns: Sequence[str], query: Composed) -> Composed:
    # A table may have no column that is written.
    listed = SQL("({}) ").format(SQL(", ").join(map(Identifier, columns))) if columns else SQL("")
    return SQL("insert into {table} {}overriding system value {}").format(listed, query, **names)


def _each(alias: str, columns: Sequence[str]) -> list[Composable]:
    return [Identifier(alias, name) for name in columns]


def _prefixed(alias: str, columns: Sequence[str]) -> Composable:
    return SQL(", ").join(_each(alias, columns))
