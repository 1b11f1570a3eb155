"""The rows of ``replication.resync_due``: tables that replay has copied again by itself.

DDL marks them, and the receiver those that were published late or whose losses nobody counted; what
replay runs in the background copies them, ``pgrepl resync`` may come first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.foreign_names import fit_name
from pgrepl.postgres.queries import load_query
from pgrepl.publications.late import LateTable

__all__ = [
    "DueTable",
    "clear_due",
    "is_due",
    "mark_due",
    "mark_late",
    "mark_unproven",
    "note_failure",
    "read_due",
    "withdraw_due",
]


@dataclass(frozen=True, slots=True)
class DueTable:
    """One table, by its name on the source."""

    schema_name: str
    table_name: str
    reason: str
    marked_at: datetime
    attempt_count: int
    #: Whether it is parked for another reason than a resync: that is for a person to settle.
    is_parked: bool
    #: Whether a resync copied it, and only what waited is not applied yet.
    is_copied: bool
    #: Whether its rows are known to be wrong, since a copy of them began last.
    is_wrong: bool

    @property
    def key(self) -> tuple[str, str]:
        """Schema and name on the source."""
        return self.schema_name, self.table_name


def mark_due(connection: Connection, source_id: int, key: tuple[str, str], reason: str) -> None:
    """Have a replicated table copied again; a partitioned one has no rows of its own."""
    connection.execute(
        "insert into replication.resync_due (source_id, schema_name, table_name, reason)"
        " select source_id, schema_name, table_name, %s from replication.source_table"
        " where source_id = %s and schema_name = %s and table_name = %s"
        " on conflict (source_id, schema_name, table_name) do update"
        " set marked_at = excluded.marked_at, attempt_count = 0, error = null",
        (reason, source_id, *key),
    )


def withdraw_due(connection: Connection, source_id: int, key: tuple[str, str]) -> None:
    """Have a table not copied by replay any more: it could not be."""
    connection.execute(
        "delete from replication.resync_due"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *key),
    )


def mark_late(
    connection: Connection, source_id: int, tables: Sequence[LateTable], reason: str
) -> Sequence[tuple[str, str]]:
    """Have tables copied again that joined a publication after their copy began; return which.

    One that is marked already, for this or for a person, stays as it is.
    """
    rows = connection.execute(
        load_query("pgrepl.store.resync", "mark_late"),
        {
            "source_id": source_id,
            "reason": reason,
            "oids": [table.oid for table in tables],
            "schemas": [fit_name(connection, table.schema) for table in tables],
            "names": [fit_name(connection, table.name) for table in tables],
            "lsns": [str(table.lsn) for table in tables],
            "xids": [table.xid for table in tables],
            "changes": [table.is_changed for table in tables],
        },
    )
    return [(schema, name) for schema, name in rows]


def mark_unproven(
    connection: Connection, source_id: int, keys: Collection[tuple[str, str]], reason: str
) -> Sequence[tuple[str, str]]:
    """Have tables copied again of which nobody knows whether they lost changes; return which.

    One that is marked already, for this or for a person, stays as it is.
    """
    rows = connection.execute(
        "insert into replication.resync_due (source_id, schema_name, table_name, reason)"
        " select t.source_id, t.schema_name, t.table_name, %s"
        " from unnest(%s::text[], %s::text[]) as k (schema_name, table_name)"
        " join replication.source_table t using (schema_name, table_name)"
        " where t.source_id = %s and t.state = 'ready' and t.resync_reason is null"
        " on conflict do nothing returning schema_name::text, table_name::text",
        (reason, [schema for schema, _ in keys], [name for _, name in keys], source_id),
    )
    return [(schema, name) for schema, name in rows]


def read_due(connection: Connection, source_id: int) -> Sequence[DueTable]:
    """Return what is due of a source, the oldest first."""
    with connection.cursor(row_factory=class_row(DueTable)) as cursor:
        return cursor.execute(
            "select d.schema_name::text, d.table_name::text, d.reason, d.marked_at,"
            " d.attempt_count,"
            " coalesce(t.state = 'ready' and p.kind <> 'resync', false) as is_parked,"
            " coalesce(t.state = 'ready' and p.kind = 'resync' and t.resync_reason is null, false)"
            " as is_copied, t.resync_reason is not null as is_wrong"
            " from replication.resync_due d"
            " join replication.source_table t using (source_id, schema_name, table_name)"
            " left join replication.parked_table p using (source_id, schema_name, table_name)"
            " where d.source_id = %s order by d.marked_at, 1, 2",
            (source_id,),
        ).fetchall()


def is_due(connection: Connection, source_id: int, key: tuple[str, str]) -> bool:
    """Whether a table waits to be copied again by replay."""
    found = connection.execute(
        "select from replication.resync_due"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *key),
    )
    return found.fetchone() is not None


def note_failure(
    connection: Connection, source_id: int, tables: Iterable[DueTable], error: str
) -> None:
    """Keep why tables could not be copied."""
    for table in tables:
        connection.execute(
            "update replication.resync_due set attempt_count = attempt_count + 1, error = %s"
            " where source_id = %s and schema_name = %s and table_name = %s and marked_at = %s",
            (error, source_id, *table.key, table.marked_at),
        )


def clear_due(connection: Connection, source_id: int, tables: Iterable[DueTable]) -> None:
    """Forget marks of tables that were copied, unless they were marked again since."""
    for table in tables:
        connection.execute(
            "delete from replication.resync_due"
            " where source_id = %s and schema_name = %s and table_name = %s and marked_at = %s",
            (source_id, *table.key, table.marked_at),
        )
