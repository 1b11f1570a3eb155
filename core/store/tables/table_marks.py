"""Why tables need a resync: the column ``resync_reason`` of ``replication.source_table``."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.foreign_names import fit_name
from pgrepl.postgres.queries import load_query
from pgrepl.store.spool.consumer_gaps import note_gap

__all__ = [
    "LOST_IDENTITY",
    "add_lost_table",
    "mark_changed",
    "mark_counted_loss",
    "mark_resync",
    "mark_verified",
    "mark_void",
    "may_have_lost",
    "read_marked",
    "read_marked_for",
    "read_marked_pending",
    "read_needing",
]

_Name = tuple[str, str]

#: What the receiver marks tables with whose changes the source does not send.
LOST_IDENTITY = "an UPDATE or DELETE could not be replicated: the table has no replica identity"
#: What verify marks tables with, and takes back.
_DIFFERS = "verify found rows that differ"


def add_lost_table(
    connection: Connection, source_id: int, name: _Name, reason: str, lsn: Position | None
) -> None:
    """Mark a table that lost changes for a resync; ``lsn``: before that they were lost, if known.

    A table that no copy knows yet gets a row, as one whose copy is not whole.
    """
    name = (fit_name(connection, name[0]), fit_name(connection, name[1]))
    connection.execute(
        "insert into replication.source_table as t"
        " (source_id, schema_name, table_name, resync_reason, lost_lsn)"
        " values (%s, %s, %s, %s, %s)"
        " on conflict (source_id, schema_name, table_name) do update"
        " set resync_reason = coalesce(t.resync_reason, excluded.resync_reason),"
        " lost_lsn = greatest(t.lost_lsn, excluded.lost_lsn)",
        (source_id, *name, reason, lsn),
    )
    note_gap(connection, source_id, name, reason)


def mark_counted_loss(
    connection: Connection, source_id: int, name: _Name, oid: int | None, reason: str
) -> None:
    """Mark a table that is known to have lost changes, unless another one has its name by now.

    Whoever counts them does so again, and finds it under its new name then.
    """
    marked = connection.execute(
        "update replication.source_table set resync_reason = coalesce(resync_reason, %s)"
        " where source_id = %s and schema_name = %s and table_name = %s"
        " and source_oid is not distinct from coalesce(%s, source_oid)",
        (reason, source_id, *name, oid),
    )
    if marked.rowcount:
        note_gap(connection, source_id, name, reason)


def mark_changed(connection: Connection, source_id: int, name: _Name, reason: str) -> None:
    """Say that a table has to be copied again: its rows are others, without a change in the spool.

    Whoever hands changes on does not have that either.
    """
    mark_resync(connection, source_id, name, reason)
    note_gap(connection, source_id, name, reason)


def mark_resync(connection: Connection, source_id: int, name: _Name, reason: str) -> None:
    """Say that a table has to be copied again, unless a reason for that stands there already."""
    connection.execute(
        "update replication.source_table set resync_reason = coalesce(resync_reason, %s)"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (reason, source_id, *name),
    )


def read_marked_for(connection: Connection, source_id: int, reason: str) -> frozenset[_Name]:
    """Return the tables that have to be copied again for this reason."""
    rows = connection.execute(
        "select schema_name::text, table_name::text from replication.source_table"
        " where source_id = %s and resync_reason = %s",
        (source_id, reason),
    )
    return frozenset(rows.fetchall())


def mark_verified(
    connection: Connection,
    source_id: int,
    *,
    differing: Collection[_Name],
    equal: Collection[_Name],
) -> None:
    """Mark the tables that verify found different, and take that back from those found equal."""
    for name in differing:
        mark_resync(connection, source_id, name, _DIFFERS)
    connection.execute(
        "update replication.source_table t set resync_reason = null"
        " from unnest(%s::text[], %s::text[]) as w (schema_name, table_name)"
        " where t.source_id = %s and t.schema_name = w.schema_name"
        " and t.table_name = w.table_name and t.resync_reason = %s",
        ([schema for schema, _ in equal], [name for _, name in equal], source_id, _DIFFERS),
    )


def mark_void(connection: Connection, source_id: int, name: _Name) -> None:
    """Have changes of a table passed over until it is copied: the copy will hold them."""
    connection.execute(
        "update replication.source_table set state = 'pending'"
        " where source_id = %s and schema_name = %s and table_name = %s and state = 'ready'",
        (source_id, *name),
    )


def may_have_lost(connection: Connection, source_id: int, name: _Name) -> bool | None:
    """Whether a table may have lost changes that were not sent; None: it may, and may again.

    It may again as long as it has no replica identity.
    """
    found = connection.execute(
        load_query("pgrepl.store.tables", "lost_changes"),
        {"source_id": source_id, "schema": name[0], "name": name[1], "lost": LOST_IDENTITY},
    ).fetchone()
    if found is None:
        return False
    is_identified, has_lost = found
    return bool(has_lost) if is_identified else None


def read_needing(connection: Connection, source_id: int) -> frozenset[_Name]:
    """Return the tables that something marked for a resync, or whose copy is not whole."""
    rows = connection.execute(
        "select schema_name::text, table_name::text from replication.source_table t"
        " left join replication.resync_due d using (source_id, schema_name, table_name)"
        " where source_id = %s and (t.resync_reason is not null or d.reason is not null"
        " or t.state <> 'ready')",
        (source_id,),
    )
    return frozenset((schema, name) for schema, name in rows)


def read_marked(connection: Connection, source_id: int) -> Sequence[_Name]:
    """Return the tables that are marked for a resync, in the order of their names."""
    rows = connection.execute(
        "select schema_name::text, table_name::text from replication.source_table"
        " where source_id = %s and resync_reason is not null order by 1, 2",
        (source_id,),
    )
    return [(schema, name) for schema, name in rows]


def read_marked_pending(connection: Connection, source_id: int) -> Sequence[_Name]:
    """Return the tables that are marked for a resync and have no copy that is whole."""
    rows = connection.execute(
        "select schema_name::text, table_name::text from replication.source_table"
        " where source_id = %s and resync_reason is not null and state = 'pending'",
        (source_id,),
    )
    return [(schema, name) for schema, name in rows]
