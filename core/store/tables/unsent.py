"""What of tables without a replica identity was counted when their copies began."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from pgrepl.postgres.connect import Connection

__all__ = ["Unsent", "read_unsent", "record_unsent"]

_Name = tuple[str, str]


class Unsent(NamedTuple):
    """What a source counts of rows whose UPDATE and DELETE it cannot send, of one table."""

    changes: int
    #: Since when; None: not known yet, of a table that DDL made.
    since: datetime | None


def record_unsent(connection: Connection, source_id: int, counts: Mapping[_Name, Unsent]) -> None:
    """Record what of tables without an identity is in the copy that begins now."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "update replication.source_table set unsent_changes = %s, unsent_since = %s"
            " where source_id = %s and schema_name = %s and table_name = %s",
            [(*unsent, source_id, *name) for name, unsent in counts.items()],
        )


def read_unsent(connection: Connection, source_id: int) -> Mapping[_Name, Unsent]:
    """Return what was recorded, for each table that is known."""
    rows = connection.execute(
        "select schema_name::text, table_name::text, unsent_changes, unsent_since"
        " from replication.source_table where source_id = %s",
        (source_id,),
    )
    return {(schema, table): Unsent(*values) for schema, table, *values in rows.fetchall()}
