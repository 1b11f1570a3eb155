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
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from pgrepl.basebackup.rows.copy_pipe import Transferred, copy_in, copy_out, transfer
from pgrepl.basebackup.rows.pace import Pace
from pgrepl.catalog.tables import SourceTable
from pgrepl.config.dsn import Endpoint
from pgrepl.config.rules import Salt
from pgrepl.errors import PgreplError
from pgrepl.failpoint import reach
from pgrepl.masking import set_salts
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.tables.copy_work import CopyPart, fail_part, finish_part, take_part

__all__ = ["CopyTask", "open_snapshot", "run_task"]

_STAGE = "basebackup"


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
    if not table.columns:
        return _copy_empty_rows(task, source, target, table)
    try:
        return transfer(
            (task.source, source, copy_out(table, part.first_block, part.end_block)),
            (task.target, target, copy_in(table, task.places[table.key])),
            table,
            pace,
        )
    except PgreplError:
        # In the middle of a COPY there is no way to roll back but this one.
        target.close()
        raise


def _copy_empty_rows(
    task: CopyTask, source: Connection, target: Connection, table: SourceTable
) -> Transferred:
    """Copy a table of which no column is stored: all there is of its rows is how many."""
    with translated(task.source, f"cannot read {table}"):
        ((count,),) = source.execute(
            SQL("select count(*) from only {}").format(table.identifier)
        ).fetchall()
    copy = Identifier(*task.places[table.key])
    with translated(task.target, f"cannot write the copy of {table}"):
        target.execute(
            SQL("insert into {} select from generate_series(1, {})").format(copy, Literal(count))
        )
    return Transferred(count, 0)


def _record_failure(task: CopyTask, part: CopyPart, error: PgreplError) -> None:
    """Keep other tasks from failing on the same part; when that fails too, they find out."""
    with suppress(PgreplError, psycopg.Error), connect(task.target, _STAGE) as target:
        fail_part(target, part.part_id, error.message)
