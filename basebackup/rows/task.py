"""A copying task: takes part after part from the target's list until none is left.

Each part is one target transaction: its row in ``replication.copy_part`` locked, its rows written,
its row updated. Whatever becomes of a task, a part is copied once or not at all, and another task
takes it. Tasks that outlive their run find no part of it any more.

Everything here runs in worker processes or in Spark's executors. The conninfos travel inside the
pickled task.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from uuid import UUID

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from pgrepl.basebackup.rows.copy_pipe import Transferred, copy_in, copy_out, transfer
from pgrepl.basebackup.rows.pace import Pace
from pgrepl.catalog.tables import SourceTable
from pgrepl.config.dsn import Endpoint
from pgrepl.config.rules import Salt
from pgrepl.errors import PgreplError, SourceChanged
from pgrepl.failpoint import reach
from pgrepl.masking import set_salts
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.tables.copy_work import CopyPart, fail_part, finish_part, take_part

__all__ = ["CopyTask", "open_snapshot", "run_task"]

_STAGE = "basebackup"
#: DDL often gives up by itself: migrations are run with a lock_timeout.
_LOCK_TIMEOUT_MS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTask:
    """What a task needs to know. Holds secrets: it is pickled, never printed."""

    source: Endpoint = field(repr=False)
    target: Endpoint = field(repr=False)
    run_id: UUID
    snapshot: str
    tables: Mapping[tuple[str, str], SourceTable] = field(repr=False)
    #: Where the rows of each table go: schema and name on the target.
    places: Mapping[tuple[str, str], tuple[str, str]] = field(repr=False)
    #: Bytes a second that this task may read; None: as many as it can.
    max_rate: float | None = None


def run_task(task: CopyTask) -> Sequence[PgreplError]:
    """Copy parts until none is left; return what went wrong with some of them."""
    errors: list[PgreplError] = []
    while True:
        try:
            with (
                closing(connect(task.source, _STAGE)) as source,
                closing(connect(task.target, _STAGE)) as target,
            ):
                with translated(task.source, "cannot use the snapshot"):
                    set_salts(source, _salts(task))
                    open_snapshot(source, task.snapshot)
                pace = None if task.max_rate is None else Pace(task.max_rate)
                failed = _copy_all(task, source, target, pace)
        except PgreplError as exc:
            # No part is to blame: without connections or the snapshot nothing can be copied.
            return [*errors, exc]
        if failed is None:
            return errors
        errors.append(failed)


def _salts(task: CopyTask) -> frozenset[Salt]:
    masks = (mask for table in task.tables.values() for mask in table.masks.values())
    return frozenset(mask.salt for mask in masks if mask.salt is not None)


def open_snapshot(connection: Connection, snapshot: str) -> None:
    """Begin a transaction that sees what the snapshot sees."""
    connection.execute("begin isolation level repeatable read read only")
    connection.execute(SQL("set transaction snapshot {}").format(Literal(snapshot)))


def _copy_all(
    task: CopyTask, source: Connection, target: Connection, pace: Pace | None
) -> PgreplError | None:
    """Copy parts until none is left, or one fails; the connections are of no use then."""
    while True:
        part = None
        try:
            with translated(task.target, "cannot record the copy"), target.transaction():
                part = take_part(target, task.run_id)
                if part is None:
                    return None
                begin = time.monotonic()
                copied = _copy(task, source, target, part, pace)
                reach("basebackup.part_copied")
                finish_part(
                    target,
                    part.part_id,
                    row_count=copied.row_count,
                    byte_count=copied.byte_count,
                    seconds=time.monotonic() - begin,
                )
        except PgreplError as exc:
            if part is None:
                raise
            _record_failure(task, part, exc)
            return exc


def _copy(
    task: CopyTask, source: Connection, target: Connection, part: CopyPart, pace: Pace | None
) -> Transferred:
    table = task.tables[part.schema_name, part.table_name]
    named = _as_named_now(task, source, table)
    _lock(task, source, named)
    if not table.columns:
        copied = _copy_empty_rows(task, source, target, named, task.places[table.key])
    else:
        try:
            copied = transfer(
                (task.source, source, copy_out(named, part.first_block, part.end_block)),
                (task.target, target, copy_in(table, task.places[table.key])),
                named,
                pace,
            )
        except PgreplError:
            # In the middle of a COPY there is no way to roll back but this one.
            target.close()
            raise
    if _as_named_now(task, source, table).key != named.key:
        # It may have been another table that had its name.
        raise SourceChanged(
            f"{task.source}: table {named} was renamed while it was read",
            hint="Run the same command again.",
        )
    return copied


def _as_named_now(task: CopyTask, source: Connection, table: SourceTable) -> SourceTable:
    """Return a table by its name of now: no lock on it keeps its schema from another one."""
    with translated(task.source, f"cannot read the name of {table}"):
        # The function sees what is; the row is of the snapshot, and reading it takes a lock, with
        # which the session learns what others did.
        ((names,),) = source.execute(
            "select o.object_names from pg_class c,"
            " pg_identify_object_as_address('pg_class'::regclass, c.oid, 0) o where c.oid = %s",
            (table.oid,),
        ).fetchall()
    return replace(table, schema=names[0], name=names[1])


def _lock(task: CopyTask, source: Connection, table: SourceTable) -> None:
    """Lock a table against DDL, as whoever keeps the snapshot does.

    DDL that came since waits for the keeper, and whoever wants the table after it waits for the
    DDL: the copy would wait for itself.

    Raises
    ------
    SourceChanged
        when there is such DDL, and it does not give up.

    """
    statement = SQL("lock table only {} in access share mode").format(table.identifier)
    with translated(task.source, f"cannot lock {table}"):
        try:
            source.execute(SQL("set local lock_timeout = {}").format(Literal(_LOCK_TIMEOUT_MS)))
            source.execute(statement)
        except psycopg.errors.LockNotAvailable as exc:
            raise SourceChanged(
                f"{task.source}: DDL on {table} waits for the copy, and the copy for that DDL",
                hint="Run the same command again when the migration is over.",
            ) from exc
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as exc:
            raise SourceChanged(
                f"{task.source}: table {table} was renamed while it was copied",
                hint="Run the same command again.",
            ) from exc


def _copy_empty_rows(
    task: CopyTask,
    source: Connection,
    target: Connection,
    table: SourceTable,
    place: tuple[str, str],
) -> Transferred:
    """Copy a table of which no column is stored: all there is of its rows is how many."""
    with translated(task.source, f"cannot read {table}"):
        ((count,),) = source.execute(SQL("select count(*) from {}").format(table.rows)).fetchall()
    with translated(task.target, f"cannot write the copy of {table}"):
        target.execute(
            SQL("insert into {} select from generate_series(1, {})").format(
                Identifier(*place), Literal(count)
            )
        )
    return Transferred(count, 0)


def _record_failure(task: CopyTask, part: CopyPart, error: PgreplError) -> None:
    """Keep other tasks from failing on the same part; when that fails too, they find out."""
    with suppress(PgreplError, psycopg.Error), connect(task.target, _STAGE) as target:
        fail_part(target, part.part_id, error.message)
