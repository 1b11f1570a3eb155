"""ANALYZE after large batches, so that the next query is planned for the rows that are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg.sql import SQL, Identifier

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["analyze", "find_stale"]

#: The number of changed rows, and the share of all, that make statistics stale.
_LEAST_CHANGES = 10_000
_LEAST_SHARE = 0.1


def find_stale(connection: Connection, schemas: Iterable[str]) -> Sequence[tuple[str, str]]:
    """Return the tables of some schemas that changed much, most changed first."""
    rows = connection.execute(
        load_query("pgrepl.housekeeping", "stale_tables"),
        {"schemas": list(schemas), "least": _LEAST_CHANGES, "share": _LEAST_SHARE},
    )
    return [(schema, table) for schema, table, _ in rows]


def analyze(connection: Connection, schema: str, table: str) -> None:
    """Collect the statistics of one table."""
    connection.execute(SQL("analyze {}").format(Identifier(schema, table)))
