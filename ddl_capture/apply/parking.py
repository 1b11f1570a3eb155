"""DDL on tables whose changes wait: parked by a failure, or while they are copied again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pgrepl.config.naming import shown_name
from pgrepl.ddl_capture.definition import TableName
from pgrepl.ddl_capture.policy.rules import RefusedError
from pgrepl.errors import TargetUnavailable
from pgrepl.postgres.advisory_locks import (
    copy_lock,
    resync_lock,
    try_transaction_lock,
    try_transaction_share,
)
from pgrepl.postgres.connect import Connection
from pgrepl.store.copy_work import remove_parts
from pgrepl.store.parked import read_interrupted, unpark
from pgrepl.store.resync_queue import mark_due
from pgrepl.store.resyncs import remove_resync_of
from pgrepl.store.sources import SourceRow

__all__ = ["ParkedError", "check_parked", "release_interrupted"]


def release_interrupted(connection: Connection, source: SourceRow) -> None:
    """Let go of tables whose resync was broken off, and have them copied again.

    Their rows are old, and what waits for them will be in the next copy: DDL need not wait for
    one that may itself wait for the DDL. The locks keep a new resync away until we are done.
    """
    tables = read_interrupted(connection, source.source_id)
    if not tables or not try_transaction_share(connection, copy_lock(source.name)):
        return
    for name in tables:
        if not try_transaction_lock(connection, resync_lock(source.name, name)):
            continue
        remove_parts(connection, source.source_id, [name])
        unpark(connection, source.source_id, name)
        remove_resync_of(connection, source.source_id, name)
        mark_due(connection, source.source_id, name, "its resync was broken off")


def check_parked(parked: Mapping[TableName, bool], changed: Collection[TableName]) -> None:
    """Refuse DDL on tables whose changes wait, for good or until they are copied.

    Raises
    ------
    TargetUnavailable
        when a resync is at work on them.
    ParkedError
        when they wait for a person.

    """
    for name in sorted(changed):
        if parked.get(name):
            raise TargetUnavailable(
                f"table {shown_name(*name)} is being copied again, and DDL on it waits for that",
                hint="It goes on by itself. If no resync runs any more, run pgrepl resync.",
            )
    waiting = parked.keys() & changed
    if waiting:
        raise ParkedError(frozenset(waiting))


class ParkedError(RefusedError):
    """DDL on a table that is parked, which waits with the table's changes."""

    def __init__(self, tables: frozenset[TableName]) -> None:
        """Take the parked tables that it changes."""
        names = ", ".join(shown_name(*name) for name in sorted(tables))
        super().__init__(f"it changes a parked table, whose changes wait in their order: {names}")
        self.tables = tables
