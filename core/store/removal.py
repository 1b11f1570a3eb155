"""Whether the copy of a source can be dropped without anything that others made."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.catalog.dependents import find_dependents
from pgrepl.config.dsn import Endpoint
from pgrepl.errors import TargetError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.sources import read_target_schemas
from pgrepl.store.tables.places import read_places
from pgrepl.store.tables.source_tables import read_source_tables

__all__ = ["check_removable"]

#: The most that a message names.
_NAMED = 5


def check_removable(connection: Connection, endpoint: Endpoint, source_id: int) -> None:
    """Refuse to drop a source's schemas when more than the copy would go with them.

    Raises
    ------
    TargetError
        naming what others made.

    """
    tables = _find_unreplicated(connection, source_id)
    if tables:
        raise TargetError(
            f"{endpoint}: schemas of the copy hold tables that are not replicated:"
            f" {', '.join(tables[:_NAMED])}",
            hint="Move them to another schema or drop them; pgrepl removes only what it made.",
        )
    schemas = list(read_target_schemas(connection, source_id).values())
    dependents = find_dependents(connection, schemas)
    if dependents:
        raise TargetError(
            f"{endpoint}: objects outside the copy depend on it: {', '.join(dependents[:_NAMED])}",
            hint="Drop them first; pgrepl removes only what it made.",
        )


def _find_unreplicated(connection: Connection, source_id: int) -> Sequence[str]:
    """Return the tables in a source's schemas that pgrepl does not replicate."""
    rows = connection.execute(
        load_query("pgrepl.store", "tables_of_schemas"), {"source": source_id}
    ).fetchall()
    there = {(schema, name): shown for shown, schema, name in rows}
    keys = read_places(connection, source_id).keys(there)
    replicated = {table.key for table in read_source_tables(connection, source_id)}
    return [shown for place, shown in there.items() if keys.get(place) not in replicated]
