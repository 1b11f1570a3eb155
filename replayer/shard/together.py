"""Apply the changes of many tables at the price of few.

Nearly always all goes well, and then a savepoint and a staging table for each would be most of the
work. So all tables of a chunk share a savepoint. Only when something fails it is done again, each
table in a savepoint of its own, so that exactly the one that cannot be applied is told.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import psycopg
from psycopg import RawCursor
from psycopg.rows import TupleRow
from psycopg.sql import SQL

from pgrepl.config.model import OnConflict
from pgrepl.decoding.changes import TableChanges
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.session import limit_waits
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.apply import (
    TableFailed,
    TableLocked,
    apply_changes,
    can_copy,
    shape_of,
    told,
)
from pgrepl.replayer.shard.fold import KeyedNet, net_of
from pgrepl.replayer.shard.merging.arrays import (
    FEW_ROWS,
    ArrayStatement,
    array_statements,
    can_send_arrays,
    start,
)
from pgrepl.replayer.shard.merging.merge_sets import Conflict, Outcome, merge_plainly
from pgrepl.replayer.shard.merging.staging import copy_inserts, write_staging

__all__ = ["apply_plainly", "apply_tables"]

#: A table that could not be applied with others is applied by itself for this time.
_APART_S = 60.0

#: Stages are dropped at commit; those of more rows than that as soon as they are merged.
_MANY_ROWS = 10_000

#: The tables that are applied by themselves, by schema and name on the target, and until when.
_apart_until: dict[tuple[str, str], float] = {}
_stage_numbers = count()


def apply_tables(
    connection: Connection,
    tables: Sequence[TableChanges],
    on_conflict: OnConflict,
    settings: ReplaySettings,
) -> Iterator[tuple[TableChanges, Outcome | TableFailed]]:
    """Apply the changes of tables inside the caller's transaction, and say what came of each.

    Of a table that failed nothing is left.
    """
    together = [changes for changes in tables if not _is_apart(changes)]
    is_done = not together or _apply_together(connection, together, settings)
    done = {changes.names for changes in together} if is_done else set()
    wait_s = settings.table_lock_s
    for changes in tables:
        result: Outcome | TableFailed = Outcome()
        if changes.names not in done:
            try:
                with _waiting(connection, wait_s, settings):
                    result = apply_changes(connection, changes, on_conflict)
            except TableLocked as locked:
                result, wait_s = locked, settings.next_table_lock_s
            except TableFailed as failed:
                result = failed
        yield changes, result


def apply_plainly(connection: Connection, changes: TableChanges, settings: ReplaySettings) -> bool:
    """Apply the changes of a table in the way that nearly always works, or nothing of them."""
    return not _is_apart(changes) and _apply_together(connection, [changes], settings)


@contextmanager
def _waiting(connection: Connection, wait_s: float, settings: ReplaySettings) -> Iterator[None]:
    """Wait for no lock longer than that, as all other tables wait as long."""
    limit_waits(connection, wait_s)
    try:
        yield
    except TableFailed:
        # What was tried is rolled back, and the transaction goes on.
        limit_waits(connection, settings.lock_timeout_s)
        raise
    limit_waits(connection, settings.lock_timeout_s)


def _is_apart(changes: TableChanges) -> bool:
    return _apart_until.get(_target_name(changes), 0.0) > time.monotonic()


def _target_name(changes: TableChanges) -> tuple[str, str]:
    shape = changes.shape
    return changes.names if shape is None else (shape.schema, shape.name)


class _Refused(Exception):
    """A table cannot be applied together with others, and nothing of them is."""

    def __init__(self, changes: TableChanges) -> None:
        super().__init__(changes.names)
        self.changes = changes


def _apply_together(
    connection: Connection, tables: Sequence[TableChanges], settings: ReplaySettings
) -> bool:
    """Apply the changes of tables in one savepoint, or nothing of them."""
    queued: list[tuple[TableChanges, ArrayStatement]] = []
    try:
        with connection.transaction():
            limit_waits(connection, settings.table_lock_s)
            for changes in tables:
                with _refused(changes):
                    queued += [
                        (changes, statement) for statement in _apply_or_queue(connection, changes)
                    ]
            _run(connection, queued)
            limit_waits(connection, settings.lock_timeout_s)
    except _Refused as refused:
        _apart_until[_target_name(refused.changes)] = time.monotonic() + _APART_S
        return False
    return True


@contextmanager
def _refused(changes: TableChanges) -> Iterator[None]:
    """Refuse the table whose failure this is; what is none is raised."""
    try:
        with told(changes.shape):
            yield
    except TableFailed as failed:
        raise _Refused(changes) from failed


def _apply_or_queue(connection: Connection, changes: TableChanges) -> Sequence[ArrayStatement]:
    """Apply the changes of a table, or return the few statements that do."""
    shape = shape_of(changes)
    is_few = shape.key and changes.count <= FEW_ROWS
    if not is_few and can_copy(shape, changes):
        copy_inserts(connection, shape, changes.runs, changes.encoding)
        return ()
    net = net_of(shape, changes)
    if isinstance(net, KeyedNet) and not net.is_upsert:
        can_send = can_send_arrays(connection, changes.encoding)
        statements = array_statements(shape, net) if can_send else None
        if statements is not None:
            return statements
    place = ("pg_temp", f"pgrepl_stage_{next(_stage_numbers)}")
    staging = write_staging(connection, shape, net, place, changes.encoding)
    merge_plainly(connection, staging)
    if staging.count("IUMD") > _MANY_ROWS:
        # Not always: psycopg forgets all prepared statements when something is dropped.
        connection.execute(SQL("drop table {}").format(staging.identifier))
    return ()


def _run(connection: Connection, queued: Sequence[tuple[TableChanges, ArrayStatement]]) -> None:
    """Run statements without waiting for one before the next is sent."""
    cursors: list[RawCursor[TupleRow]] = []
    error: psycopg.Error | None = None
    try:
        with connection.pipeline():
            try:
                for _, statement in queued:
                    cursors.append(start(connection, statement))
            except psycopg.Error as exc:
                # psycopg would log what the end of the pipeline says of it, with a row's values.
                error = exc
    except psycopg.Error as exc:
        error = error or exc
    if error is not None:
        done = sum(cursor.pgresult is not None for cursor in cursors)
        with _refused(queued[min(done, len(queued) - 1)][0]):
            raise error
    for (changes, statement), cursor in zip(queued, cursors, strict=True):
        if statement.expected_count not in (None, cursor.rowcount):
            with _refused(changes):
                raise Conflict(0, 0)
