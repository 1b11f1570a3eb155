"""Tables that the target never had and that are copied in chunks: where their copies are.

Until such a table is whole its copy has another name, which nobody looks for; changes are applied
to it there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from psycopg.sql import SQL, Identifier

from pgrepl.postgres.connect import Connection
from pgrepl.store.resync.resync_chunks import remove_chunks
from pgrepl.store.resync.running_resyncs import find_resync, remove_resync
from pgrepl.store.tables.table_names import remove_table

__all__ = [
    "abandon_join",
    "drop_hidden",
    "drop_hidden_roots",
    "finish_join",
    "forget_copy",
    "forget_join",
    "hidden_name",
    "read_joining",
    "set_hidden",
]

_Name = tuple[str, str]

_HIDDEN = "pgrepl_shadow_"


def set_hidden(connection: Connection, resync_id: int, name: str) -> None:
    """Record what the copy of a new table is called until it is whole."""
    connection.execute(
        "update replication.resync set hidden_name = %s where resync_id = %s", (name, resync_id)
    )


def read_joining(connection: Connection, source_id: int) -> Mapping[_Name, int]:
    """Return the new tables that are copied in chunks, or about to be in any way, with their OIDs.

    They are made when they are copied.
    """
    rows = connection.execute(
        "select schema_name::text, table_name::text, source_oid::bigint from replication.resync"
        " where source_id = %s and is_first and (way = 'chunked' or state = 'requested')",
        (source_id,),
    )
    return {(schema, name): oid for schema, name, oid in rows}


def hidden_name(oid: int) -> str:
    """Return what the copy of a new table is called until it is whole."""
    return f"{_HIDDEN}{oid}"


def drop_hidden(connection: Connection, resync_id: int) -> None:
    """Drop the copy of a new table that nobody has seen, if there is one."""
    rows = connection.execute(
        "select s.target_schema::text, coalesce(r.hidden_name::text, %s || r.source_oid::text)"
        " from replication.resync r join replication.target_schema s on s.source_id = r.source_id"
        " and s.source_schema = r.schema_name"
        " where r.resync_id = %s and (r.hidden_name is not null or r.is_first)",
        (_HIDDEN, resync_id),
    ).fetchall()
    for place in rows:
        connection.execute(SQL("drop table if exists {} cascade").format(Identifier(*place)))


def abandon_join(connection: Connection, source_id: int, names: Collection[_Name]) -> None:
    """Have new tables copied from the first row on, with another structure; theirs is void.

    Until then they are unknown, as they were.
    """
    for name in names:
        resync = find_resync(connection, source_id, name)
        if resync is None:
            continue
        drop_hidden(connection, resync.resync_id)
        remove_chunks(connection, resync.resync_id)
        connection.execute(
            "update replication.resync set state = 'requested', hidden_name = null,"
            " key_columns = null, last_key = null, updated_at = clock_timestamp()"
            " where resync_id = %s",
            (resync.resync_id,),
        )
        forget_copy(connection, source_id, name)


def drop_hidden_roots(connection: Connection, source_id: int) -> None:
    """Drop partitioned tables that were made for new partitions, when nobody copies any."""
    rows = connection.execute(
        "select n.nspname::text, c.relname::text from replication.target_schema s"
        " join pg_namespace n on n.nspname = s.target_schema"
        " join pg_class c on c.relnamespace = n.oid and c.relkind = 'p'"
        " where s.source_id = %(source)s and c.relname ~ %(pattern)s"
        " and not exists (select from pg_inherits i where i.inhparent = c.oid)"
        " and not exists (select from replication.resync r where r.source_id = %(source)s"
        "  and r.is_first)",
        {"source": source_id, "pattern": f"^{_HIDDEN}[0-9]+$"},
    ).fetchall()
    for place in rows:
        connection.execute(SQL("drop table {}").format(Identifier(*place)))


def forget_copy(connection: Connection, source_id: int, name: _Name) -> None:
    """Take a new table for one that was never copied."""
    connection.execute(
        "update replication.source_table set state = 'pending', start_lsn = null,"
        " start_snapshot = null, resync_reason = 'it was never copied'"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *name),
    )


def forget_join(connection: Connection, source_id: int, names: Collection[_Name]) -> None:
    """Forget new tables that the source has dropped before they were whole."""
    for name in names:
        resync = find_resync(connection, source_id, name)
        if resync is not None:
            drop_hidden(connection, resync.resync_id)
            # Where DDL is applied, foreign keys do not cascade.
            remove_chunks(connection, resync.resync_id)
            remove_resync(connection, resync.resync_id)
        remove_table(connection, source_id, name)


def finish_join(connection: Connection, resync_id: int) -> None:
    """Record that a new table is whole, and has its own name."""
    connection.execute(
        "update replication.source_table t set state = 'ready'"
        " from replication.resync r where r.resync_id = %s and t.source_id = r.source_id"
        " and t.schema_name = r.schema_name and t.table_name = r.table_name",
        (resync_id,),
    )
