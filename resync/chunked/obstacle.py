"""Why a table cannot be copied in chunks."""

from __future__ import annotations

from pgrepl.catalog.tables import SourceTable, read_plain_columns
from pgrepl.catalog.unique_keys import read_unique_keys, sent_identity
from pgrepl.postgres.connect import Connection
from pgrepl.resync.chunked.keys import find_key, judge_key
from pgrepl.store.sources import SourceRow
from pgrepl.store.tables.target_tables import find_target_table

__all__ = ["as_on_target", "find_obstacle"]


def find_obstacle(
    source_session: Connection, target: Connection, row: SourceRow, table: SourceTable
) -> str | None:
    """Return why a table cannot be copied in chunks; None: it can.

    Of one that the target has not, whether its copy will have the same order is seen only when it
    is made.
    """
    ((is_standby, identity),) = source_session.execute(
        "select pg_is_in_recovery(), (select relreplident::text from pg_class where oid = %s::oid)",
        (table.oid,),
    ).fetchall()
    if is_standby:
        return "the source is a standby, whose snapshots do not say what runs on its primary"
    if identity != "f" and not sent_identity(
        identity, read_unique_keys(source_session, [table.oid]).get(table.oid, ())
    ):
        return "it has no replica identity, so that its UPDATE and DELETE are not sent"
    key = find_key(source_session, table.oid)
    found = find_target_table(target, row.source_id, table.key)
    if (found is None or found.oid is None) and (table.root_schema, table.root_name) != table.key:
        return "it is a partition that the target has not"
    if found is None or found.oid is None:
        copy, copy_key, is_deferrable = table, key, _has_deferrable(source_session, table.oid)
    else:
        copy, copy_key = as_on_target(target, row.source_id, table), find_key(target, found.oid)
        is_deferrable = _has_deferrable(target, found.oid)
    return "it has a deferrable constraint" if is_deferrable else judge_key(copy, key, copy_key)


def as_on_target(target: Connection, source_id: int, table: SourceTable) -> SourceTable:
    """Add the generated columns that are plain ones there: they take the source's values."""
    found = find_target_table(target, source_id, table.key)
    if found is None or found.target_schema is None:
        return table
    place = found.target_schema, found.copy_name
    return table.with_generated(read_plain_columns(target, [place]).get(place, frozenset()))


def _has_deferrable(connection: Connection, oid: int) -> bool:
    ((is_so,),) = connection.execute(
        "select exists (select from pg_constraint where conrelid = %s::oid and condeferrable"
        " and contype in ('p', 'u', 'x'))",
        (oid,),
    ).fetchall()
    return bool(is_so)
