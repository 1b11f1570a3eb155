"""What others built on schemas that pgrepl made."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.rows import scalar_row

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["find_dependents"]


def find_dependents(connection: Connection, schemas: Sequence[str]) -> Sequence[str]:
    """Return what others made elsewhere on the target on top of these schemas."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(
            load_query("pgrepl.catalog", "dependents"), {"schemas": list(schemas)}
        ).fetchall()
