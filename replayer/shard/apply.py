"""Apply the changes of one table, so that a failure leaves nothing of them and can be told."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

from pgrepl.config.model import OnConflict
from pgrepl.config.naming import shown_name
from pgrepl.decoding.changes import ColumnMissing, TableChanges
from pgrepl.decoding.shape import Shape
from pgrepl.errors import PgreplError, SpoolError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import is_transient, reason
from pgrepl.replayer.shard.fold import is_insert_only, net_of, split_by_key
from pgrepl.replayer.shard.merging.merge_sets import Conflict, Outcome, merge
from pgrepl.replayer.shard.merging.reused_stages import ReusedStages
from pgrepl.replayer.shard.merging.staging import StagingTable, copy_inserts, write_staging

__all__ = [
    "TAKEN",
    "TableFailed",
    "TableLocked",
    "apply_changes",
    "can_copy",
    "merge_staging",
    "shape_of",
    "stage_changes",
    "told",
    "unforeseen",
]

_STAGING = ("pg_temp", "pgrepl_stage")
#: Insufficient resources, an operator's intervention, a system error: no fault of the table.
_NOT_THE_TABLES = ("53", "57", "58")
#: What the server says of them quotes the bytes.
_FOREIGN = {
    "22021": "a value has bytes that are not valid in the encoding (SQLSTATE 22021)",
    "22P05": "a value has a character that the target's encoding does not have (SQLSTATE 22P05)",
}
TAKEN = (psycopg.errors.UniqueViolation, psycopg.errors.ExclusionViolation)


class TableFailed(Exception):
    """The changes of a table cannot be applied, and trying again would not help."""

    def __init__(
        self, why: str, sqlstate: str | None = None, outcome: Outcome | None = None
    ) -> None:
        """Say why, without any row's value."""
        super().__init__(why, sqlstate, outcome)
        self.reason = why
        self.sqlstate = sqlstate
        self.outcome = outcome or Outcome()


class TableLocked(TableFailed):
    """Another session has a lock on a table or its rows: its changes can be applied later."""

    def __init__(self, error: psycopg.errors.LockNotAvailable) -> None:
        """Keep the error for those who cannot go on without the table."""
        super().__init__("locked on the target by another session", error.sqlstate)
        self.error = error


def apply_changes(
    connection: Connection,
    changes: TableChanges,
    on_conflict: OnConflict,
    stages: ReusedStages | None = None,
) -> Outcome:
    """Apply changes inside the caller's transaction.

    ``stages``: what is staged goes there, not into a table of its own.

    Raises
    ------
    TableFailed
        when they cannot be applied; nothing of them is left.

    """
    with told(changes.shape):
        shape = shape_of(changes)
        pieces = split_by_key(changes.runs)
        if len(pieces) == 1:
            return _apply(connection, shape, changes, on_conflict, stages)
        missing = extra = 0
        with connection.transaction():
            for runs in pieces:
                done = _apply(connection, shape, replace(changes, runs=runs), on_conflict)
                missing, extra = missing + done.missing_count, extra + done.extra_count
        return Outcome(missing, extra)


def _apply(
    connection: Connection,
    shape: Shape,
    changes: TableChanges,
    on_conflict: OnConflict,
    stages: ReusedStages | None = None,
) -> Outcome:
    """Apply changes of rows that one key tells apart."""
    if can_copy(shape, changes):
        try:
            with connection.transaction():
                copy_inserts(connection, shape, changes.runs, changes.encoding)
        except TAKEN:
            if not shape.key:
                raise
        else:
            return Outcome()
    net, encoding = net_of(shape, changes), changes.encoding
    if stages is not None:
        place = stages.ready(shape, net)
        with connection.transaction():
            staging = write_staging(connection, shape, net, place, encoding, is_made=True)
            return merge(connection, staging, on_conflict)
    with connection.transaction():
        staging = write_staging(connection, shape, net, _STAGING, encoding)
        outcome = merge(connection, staging, on_conflict)
        connection.execute(SQL("drop table {}").format(Identifier(*_STAGING)))
    return outcome


def merge_staging(
    connection: Connection, staging: StagingTable, on_conflict: OnConflict
) -> Outcome:
    """Apply a staging table that a task has written, inside the caller's transaction.

    Raises
    ------
    TableFailed
        as ``apply_changes`` does.

    """
    with told(staging.shape):
        return merge(connection, staging, on_conflict)


def stage_changes(
    connection: Connection, changes: TableChanges, place: tuple[str, str]
) -> StagingTable:
    """Write the net change of a table into a staging table that outlives the transaction.

    Raises
    ------
    TableFailed
        when that cannot be done; there is no staging table then.

    """
    with told(changes.shape), connection.transaction():
        shape = shape_of(changes)
        return write_staging(connection, shape, net_of(shape, changes), place, changes.encoding)


def can_copy(shape: Shape, changes: TableChanges) -> bool:
    """Whether changes are new rows that COPY can write straight into the table."""
    return bool(shape.stored) and shape.stored == shape.carried and is_insert_only(changes)


def shape_of(changes: TableChanges) -> Shape:
    """Return the table on the target.

    Raises
    ------
    ColumnMissing
        when there is none, or changes could not be read.

    """
    if changes.problem is not None:
        raise changes.problem
    if changes.shape is None:
        raise ColumnMissing("the target has no such table")
    return changes.shape


@contextmanager
def told(shape: Shape | None) -> Iterator[None]:
    """Raise as the table's failure whatever is not the server's or this machine's.

    This is the one rule of what parks a table: what passes by itself, or would meet any table,
    stays what it is; any other exception, of whatever class, is the table's. A lock of another
    session is the table's too, and passes: ``TableLocked``.
    """
    try:
        yield
    except (TableFailed, MemoryError):
        raise
    except Conflict as exc:
        raise TableFailed(str(exc), outcome=exc.outcome) from exc
    except ColumnMissing as exc:
        raise TableFailed(str(exc)) from exc
    except SpoolError as exc:
        raise TableFailed(exc.message) from exc
    except PgreplError:
        raise
    except psycopg.errors.LockNotAvailable as exc:
        _name(exc, shape)
        raise TableLocked(exc) from exc
    except psycopg.Error as exc:
        if exc.sqlstate is None or is_transient(exc) or exc.sqlstate.startswith(_NOT_THE_TABLES):
            _name(exc, shape)
            raise
        raise TableFailed(_FOREIGN.get(exc.sqlstate, reason(exc)), exc.sqlstate) from exc
    except Exception as exc:
        raise TableFailed(unforeseen(exc)) from exc


def _name(error: psycopg.Error, shape: Shape | None) -> None:
    """Have an error of the server name the table."""
    if shape is not None:
        error.add_note(f"table {shown_name(shape.schema, shape.name)}")


def unforeseen(exc: Exception) -> str:
    """Return where an exception comes from that nobody expected; its text may hold a value."""
    frames = traceback.extract_tb(exc.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"its changes cannot be applied by this version of pgrepl: {type(exc).__name__}{where}"
