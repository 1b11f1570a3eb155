"""DDL on tables whose changes wait: parked by a failure, or while they are copied again."""

from __future__ import annotations

from collections.abc import Collection

from pgrepl.config.naming import shown_name
from pgrepl.ddl_capture.definition import TableName
from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.errors import TargetUnavailable
from pgrepl.postgres.advisory_locks import copy_lock, try_transaction_lock
from pgrepl.postgres.connect import Connection
from pgrepl.store.resync_queue import mark_due
from pgrepl.store.sources import SourceRow

__all__ = ["check_parked", "read_parked", "release_interrupted"]


def release_interrupted(connection: Connection, source: SourceRow) -> None:
    """Let go of tables whose resync was broken off, and have them copied again.

    Their rows are void, and what waits for them will be in the next copy: DDL need not wait for
    one that may itself wait for the DDL. The lock keeps a new resync away until we are done.
    """
    tables = connection.execute(
        "select schema_name::text, table_name::text from replication.parked_table"
        " join replication.source_table using (source_id, schema_name, table_name)"
        " where source_id = %s and state = 'copying'",
        (source.source_id,),
    ).fetchall()
    if not tables or not try_transaction_lock(connection, copy_lock(source.name)):
        return
    for schema, name in tables:
        key = (source.source_id, schema, name)
        connection.execute(
            "delete from replication.copy_part"
            " where source_id = %s and schema_name = %s and table_name = %s",
            key,
        )
        connection.execute(
            "delete from replication.parked_table"
            " where source_id = %s and schema_name = %s and table_name = %s",
            key,
        )
        mark_due(connection, source.source_id, (schema, name), "its resync was broken off")


def read_parked(connection: Connection, source: SourceRow) -> dict[TableName, bool]:
    """Return the tables whose changes wait, and of each whether that is for a resync."""
    rows = connection.execute(
        "select p.schema_name::text, p.table_name::text, coalesce(t.state = 'copying', false)"
        " or p.reason ~ '^resync(: |$)' and p.sqlstate is null and p.retry_count = 0"
        " from replication.parked_table p"
        " left join replication.source_table t using (source_id, schema_name, table_name)"
        " where source_id = %s",
        (source.source_id,),
    )
    return {(schema, name): is_resync for schema, name, is_resync in rows}


def check_parked(parked: dict[TableName, bool], changed: Collection[TableName]) -> None:
    """Refuse DDL on tables whose changes wait, for good or until they are copied.

    Raises
    ------
    TargetUnavailable
        when a resync is at work on them.
    RefusedError
        when they wait for a person.

    """
    for name in sorted(changed):
        if parked.get(name):
            raise TargetUnavailable(
                f"table {shown_name(*name)} is being copied again, and DDL on it waits for that",
                hint="It goes on by itself. If no resync runs any more, run pgrepl resync.",
            )
    if not parked.keys().isdisjoint(changed):
        raise RefusedError("it changes a parked table, whose changes wait in their order")
