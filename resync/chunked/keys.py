"""By which key a table can be copied in chunks, and why it cannot.

Ranges are read in the order of the source's index, and changes are compared with them on the
target. Both have to have one order: of texts they do where collation, its version and the encoding
are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.catalog.tables import SourceTable
from pgrepl.catalog.unique_keys import find_identity, read_unique_keys
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["KeyColumn", "find_key", "judge_key"]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A row of ``sql/column_orders.sql``."""

    name: str
    #: None: ordered the same everywhere. Empty: nobody knows.
    order_name: str | None


def find_key(connection: Connection, oid: int) -> Sequence[KeyColumn]:
    """Return the key of a table on either side, in the order of its index; empty: it has none."""
    key = find_identity(read_unique_keys(connection, [oid]).get(oid, ()))
    if key is None:
        return ()
    with connection.cursor(row_factory=class_row(KeyColumn)) as cursor:
        columns = cursor.execute(
            load_query("pgrepl.resync.chunked", "column_orders"), {"oid": oid}
        ).fetchall()
    by_name = {column.name: column for column in columns}
    return [by_name[name] for name in key.columns]


def judge_key(
    table: SourceTable, source: Sequence[KeyColumn], target: Sequence[KeyColumn]
) -> str | None:
    """Return why a table cannot be copied in chunks by its key; None: it can."""
    if not source:
        return "it has no key"
    there = {column.name: column for column in target}
    if {column.name for column in source} != there.keys():
        return "its copy has another key"
    for column in source:
        if column.name not in table.columns:
            return f'column "{column.name}" of its key is generated'
        order_name = there[column.name].order_name
        if column.order_name == "" or order_name == "":
            return f'the order of column "{column.name}" of its key may differ on the target'
        if column.order_name != order_name:
            return (
                f'column "{column.name}" of its key has another order on the target:'
                f" {column.order_name} there is {order_name}"
            )
    return None
