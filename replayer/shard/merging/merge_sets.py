"""Merge a staging table to its table, set by set.

Plain: delete what was removed, update in place, insert what is new. That fails where unique values
move between rows, because PostgreSQL looks at each row on its own; then all touched rows are
deleted and inserted in their last state, which always works: the end state satisfied the source's
constraints.
"""

from __future__ import annotations

from psycopg import errors

from pgrepl.config.model import OnConflict
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.shard.merging.merge_statements import (
    Conflict,
    KeyedMerger,
    MultisetMerger,
    Outcome,
)
from pgrepl.replayer.shard.merging.staging import StagingTable
from pgrepl.replayer.shard.merging.upsert import UpsertMerger

__all__ = ["Conflict", "Outcome", "merge", "merge_leniently", "merge_plainly"]

_TAKEN = (errors.UniqueViolation, errors.ExclusionViolation)


def merge(connection: Connection, staging: StagingTable, on_conflict: OnConflict) -> Outcome:
    """Merge a staging table inside the caller's transaction; after an error nothing of it is left.

    Raises
    ------
    Conflict
        when the target's rows are not as expected and that is an error.

    """
    merger = _merger(connection, staging)
    try:
        try:
            with connection.transaction():
                merger.plain()
        except _TAKEN:
            with connection.transaction():
                merger.replace()
    except Conflict:
        if on_conflict == "error":
            raise
    except _TAKEN as exc:
        if on_conflict == "error":
            raise Conflict(0, merger.extra_count(), exc.diag.constraint_name) from exc
    else:
        return Outcome()
    with connection.transaction():
        return merger.force()


def merge_plainly(connection: Connection, staging: StagingTable) -> None:
    """Merge a staging table inside the caller's transaction in the way that nearly always works.

    Raises
    ------
    Conflict, psycopg.Error
        when it does not; then something of it may be left.

    """
    _merger(connection, staging).plain()


def merge_leniently(connection: Connection, staging: StagingTable) -> bool:
    """Apply of a staging table what finds its row, and rows whose place is free; whether all did.

    For rows that will be copied anyway: nothing here makes a row that never was, or takes one away
    that no change takes away.
    """
    return KeyedMerger(connection, staging).lenient()


def _merger(connection: Connection, staging: StagingTable) -> KeyedMerger | MultisetMerger:
    if not staging.key:
        return MultisetMerger(connection, staging)
    return (UpsertMerger if staging.is_upsert else KeyedMerger)(connection, staging)
