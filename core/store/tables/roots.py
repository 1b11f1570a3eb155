"""Which replicated tables are partitions of which: patterns select a partition by its root."""

from __future__ import annotations

from collections.abc import Mapping

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["read_roots"]

_Name = tuple[str, str]


def read_roots(connection: Connection, source_id: int) -> Mapping[_Name, _Name]:
    """Return the replicated tables that have rows, each with its root, or with itself."""
    rows = connection.execute(
        load_query("pgrepl.store.tables", "table_roots"), {"source": source_id}
    )
    return {
        (schema, name): (root_schema, root_name) for schema, name, root_schema, root_name in rows
    }
