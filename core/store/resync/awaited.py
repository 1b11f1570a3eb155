"""Tables that DDL brought into replication, and that no copy has made yet.

They are made by their first copy, out of sight until they are whole: made by the DDL they would be
seen without the rows that they had before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.resync.resync_queue import mark_due
from pgrepl.store.spool.consumer_gaps import note_gap

__all__ = ["await_copy", "clear_due_of", "find_unknown", "read_awaited"]

_Name = tuple[str, str]


def find_unknown(
    connection: Connection,
    source_id: int,
    tables: Sequence[tuple[str, str, int | None]],
    names: Collection[_Name],
) -> frozenset[_Name]:
    """Return those of some tables, by schema, name and OID, that the target has nothing of.

    ``names``: what one of them may have been called before.
    """
    rows = connection.execute(
        load_query("pgrepl.store.resync", "unknown_tables"),
        {
            "source_id": source_id,
            "schemas": [schema for schema, _, _ in tables],
            "names": [name for _, name, _ in tables],
            "oids": [oid for _, _, oid in tables],
            "old_schemas": [schema for schema, _ in names],
            "old_names": [name for _, name in names],
        },
    )
    return frozenset((schema, name) for schema, name in rows)


def await_copy(
    connection: Connection, source_id: int, name: _Name, oid: int | None, reason: str
) -> None:
    """Have replay make a table by copying it; its changes are passed over until then."""
    connection.execute(
        "insert into replication.source_table as t"
        " (source_id, schema_name, table_name, state, source_oid, resync_reason)"
        " values (%s, %s, %s, 'pending', %s, %s)"
        " on conflict (source_id, schema_name, table_name) do update set"
        " state = 'pending', start_lsn = null, start_snapshot = null,"
        " source_oid = excluded.source_oid,"
        " resync_reason = coalesce(t.resync_reason, excluded.resync_reason)",
        (source_id, *name, oid, reason),
    )
    note_gap(connection, source_id, name, reason)
    mark_due(connection, source_id, name, reason)


def read_awaited(connection: Connection, source_id: int) -> Mapping[_Name, int | None]:
    """Return the tables that their first copy will make and nobody copies yet, with their OIDs."""
    rows = connection.execute(
        "select t.schema_name::text, t.table_name::text, t.source_oid::bigint"
        " from replication.source_table t"
        " join replication.resync_due d using (source_id, schema_name, table_name)"
        " where source_id = %s and t.state = 'pending' and not exists"
        " (select from replication.resync r where (r.source_id, r.schema_name, r.table_name)"
        "  = (t.source_id, t.schema_name, t.table_name)) and not exists"
        " (select from replication.target_schema s"
        "  join pg_catalog.pg_namespace n on n.nspname = s.target_schema"
        "  left join replication.target_table x on (x.source_id, x.schema_name, x.table_name)"
        "  = (t.source_id, t.schema_name, t.table_name)"
        # What is called like the table is that of another one.
        "  left join replication.target_table y on (y.source_id, y.schema_name, y.target_name)"
        "  = (t.source_id, t.schema_name, t.table_name)"
        "  join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname ="
        "  coalesce(x.target_name, case when y.source_id is null then t.table_name end)"
        "  where s.source_id = t.source_id and s.source_schema = t.schema_name)",
        (source_id,),
    )
    return {(schema, name): oid for schema, name, oid in rows}


def clear_due_of(connection: Connection, source_id: int, name: _Name) -> None:
    """Forget the mark of a table that has been made, and has no rows of its own."""
    connection.execute(
        "delete from replication.resync_due"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *name),
    )
