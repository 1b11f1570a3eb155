"""How tables of a source are replicated, and what their copies on the target look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, LiteralString

from psycopg.rows import class_row

from pgrepl.catalog.unique_keys import UniqueKey, find_identity, read_unique_keys
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.tables.source_tables import TableState

__all__ = ["TargetTable", "find_target_table", "read_target_tables", "read_versions"]

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A row of ``sql/target_table.sql``."""

    #: On the source.
    schema: str
    table: str
    state: TableState
    start_lsn: Lsn | None
    start_snapshot: str | None
    is_parked: bool
    #: Whether it is copied in chunks meanwhile, and whether for the first time.
    is_in_chunks: bool
    is_joining: bool
    #: What its copy is called; a new one has its own name only when it is whole.
    copy_name: str
    target_schema: str | None
    #: Both None when the target has no such table.
    oid: int | None
    relkind: str | None
    #: In the order of the table.
    columns: Sequence[Mapping[str, Any]]
    #: Of the columns those that its rows are found by, in the same order.
    key: Sequence[str] = ()


def find_target_table(connection: Connection, source_id: int, name: _Name) -> TargetTable | None:
    """Return how a table is replicated and what its copy looks like; None when it is unknown."""
    condition: LiteralString = (
        " where t.source_id = %(source_id)s"
        " and t.schema_name = %(schema)s and t.table_name = %(table)s"
    )
    given = {"source_id": source_id, "schema": name[0], "table": name[1]}
    return next(iter(_read(connection, condition, given)), None)


def read_target_tables(
    connection: Connection, source_id: int, names: Sequence[_Name]
) -> Sequence[TargetTable]:
    """Return the same of many tables, at a fraction of the price."""
    condition: LiteralString = (
        " where t.source_id = %(source_id)s and (t.schema_name, t.table_name) in"
        " (select * from unnest(%(schemas)s::name[], %(names)s::name[]))"
    )
    given = {
        "source_id": source_id,
        "schemas": [schema for schema, _ in names],
        "names": [name for _, name in names],
    }
    return _read(connection, condition, given)


def _read(
    connection: Connection, condition: LiteralString, given: Mapping[str, object]
) -> Sequence[TargetTable]:
    with connection.cursor(row_factory=class_row(TargetTable)) as cursor:
        rows = cursor.execute(
            load_query("pgrepl.store.tables", "target_table") + condition, given
        ).fetchall()
    keys = read_unique_keys(connection, [row.oid for row in rows if row.oid is not None])
    return [_with_key(row, keys.get(row.oid or 0, ())) for row in rows]


def _with_key(row: TargetTable, keys: Sequence[UniqueKey]) -> TargetTable:
    key = find_identity(keys)
    if key is None:
        return row
    names = (column["name"] for column in row.columns)
    return replace(row, key=[name for name in names if name in key.columns])


def read_versions(
    connection: Connection, source_id: int, names: Sequence[_Name]
) -> Mapping[_Name, str]:
    """Return of each known table what is another when anything about it is.

    Read before what ``find_target_table`` returns: an outdated version is noticed later.
    """
    rows = connection.execute(
        load_query("pgrepl.store.tables", "table_versions"),
        {
            "source_id": source_id,
            "schemas": [schema for schema, _ in names],
            "names": [name for _, name in names],
        },
    )
    return {names[number - 1]: version for number, version in rows}
