"""What of tables without a replica identity was counted when their copies began."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from pgrepl.postgres.connect import Connection

__all__ = [
    "KnownUnsent",
    "Unsent",
    "note_counted_since",
    "read_counted_since",
    "read_unsent",
    "record_unsent",
]

_Name = tuple[str, str]


class Unsent(NamedTuple):
    """What a source counts of rows whose UPDATE and DELETE it cannot send, of one table."""

    changes: int
    #: Since when; None: not known yet, of a table that DDL made.
    since: datetime | None


class KnownUnsent(NamedTuple):
    """What was recorded of a table, under the name that replay knows it by."""

    #: Its OID on the source; None: not known.
    oid: int | None
    unsent: Unsent


def record_unsent(connection: Connection, source_id: int, counts: Mapping[_Name, Unsent]) -> None:
    """Record what of tables without an identity is in the copy that begins now."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "update replication.source_table set unsent_changes = %s, unsent_since = %s"
            " where source_id = %s and schema_name = %s and table_name = %s",
            [(*unsent, source_id, *name) for name, unsent in counts.items()],
        )


def read_unsent(connection: Connection, source_id: int) -> Mapping[_Name, KnownUnsent]:
    """Return what was recorded, for each table that is known."""
    rows = connection.execute(
        "select schema_name::text, table_name::text, source_oid::bigint, unsent_changes,"
        " unsent_since from replication.source_table where source_id = %s",
        (source_id,),
    )
    return {
        (schema, table): KnownUnsent(oid, Unsent(*values))
        for schema, table, oid, *values in rows.fetchall()
    }


def read_counted_since(connection: Connection, source_id: int) -> datetime | None:
    """Return since when the statistics of a source counted when they were last looked at.

    Before that it is what the newest copy of a table without an identity recorded.
    """
    (row,) = connection.execute(
        "select coalesce(s.counted_since, (select max(t.unsent_since)"
        " from replication.source_table t where t.source_id = s.source_id))"
        " from replication.source s where s.source_id = %s",
        (source_id,),
    ).fetchall()
    since: datetime | None = row[0]
    return since


def note_counted_since(connection: Connection, source_id: int, since: datetime) -> None:
    """Note it, once all was marked that is not known for sure any more."""
    connection.execute(
        "update replication.source set counted_since = %(since)s"
        " where source_id = %(source_id)s and counted_since is distinct from %(since)s",
        {"source_id": source_id, "since": since},
    )
