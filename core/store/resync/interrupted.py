"""Tables whose resync was broken off, and that DDL cannot wait for."""

from __future__ import annotations

from collections.abc import Collection

from pgrepl.postgres.advisory_locks import (
    copy_lock,
    resync_lock,
    resync_run_lock,
    try_transaction_lock,
    try_transaction_share,
)
from pgrepl.postgres.connect import Connection
from pgrepl.store.parked import unpark
from pgrepl.store.resync.joins import drop_hidden, drop_hidden_roots, forget_copy
from pgrepl.store.resync.resync_queue import mark_due
from pgrepl.store.resync.running_resyncs import find_resync, remove_resync
from pgrepl.store.sources import SourceRow
from pgrepl.store.tables.copy_work import remove_parts

__all__ = ["release_interrupted", "try_resync_locks"]


def release_interrupted(
    connection: Connection, source: SourceRow, tables: Collection[tuple[str, str]]
) -> frozenset[tuple[str, str]]:
    """Let go of those tables whose resync was broken off, and have them copied again.

    Their rows are old, and what waits for them will be in the next copy: DDL need not wait for
    one that may itself wait for the DDL. The locks keep a new resync away until we are done.
    """
    if not tables or not try_transaction_share(connection, copy_lock(source.name)):
        return frozenset()
    released = set()
    for name in sorted(tables):
        if not try_resync_locks(connection, source, name):
            continue
        remove_parts(connection, source.source_id, [name])
        unpark(connection, source.source_id, name)
        resync = find_resync(connection, source.source_id, name)
        if resync is not None:
            drop_hidden(connection, resync.resync_id)
            remove_resync(connection, resync.resync_id)
            if resync.is_first:
                # DDL meets it as one that its first copy makes.
                drop_hidden_roots(connection, source.source_id)
                forget_copy(connection, source.source_id, name)
        mark_due(connection, source.source_id, name, "its resync was broken off")
        released.add(name)
    return frozenset(released)


def try_resync_locks(connection: Connection, source: SourceRow, name: tuple[str, str]) -> bool:
    """Keep others from copying a table until the open transaction ends; False: a process does.

    That may have begun when the table, or its schema, had another name.
    """
    resync = find_resync(connection, source.source_id, name)
    locks = [resync_lock(source.name, name)]
    if resync is not None:
        locks.append(resync_run_lock(resync.resync_id))
    return all(try_transaction_lock(connection, lock) for lock in locks)
