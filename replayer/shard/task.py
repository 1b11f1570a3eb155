"""The work of one Spark task: a shard's part of a batch, in one fenced target transaction.

Everything here runs in Spark's workers. The target's conninfo travels inside the pickled task.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from uuid import uuid4

import psycopg

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import OnConflict, OnError
from pgrepl.config.naming import shown_name
from pgrepl.decoding.changes import TableChanges
from pgrepl.errors import DdlError, PgreplError, Retry, SpoolError
from pgrepl.failpoint import reach
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import is_transient, translate
from pgrepl.replayer.chunked.apply import CopyLocked, apply_live
from pgrepl.replayer.chunked.spooled import SpooledChanges
from pgrepl.replayer.parked.lock_watch import naming_blockers
from pgrepl.replayer.parked.parking import add_parts, count_conflict, park
from pgrepl.replayer.session import lend_session, limit_statements, limit_waits
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.ahead import find_ahead, finish_ahead, rest_of
from pgrepl.replayer.shard.apply import TableFailed, TableLocked, stage_changes, unforeseen
from pgrepl.replayer.shard.chunks import Chunk, read_chunks
from pgrepl.replayer.shard.helpers import NotSliced, open_helpers
from pgrepl.replayer.shard.merging.merge_sets import Outcome
from pgrepl.replayer.shard.prefetch import one_ahead
from pgrepl.replayer.shard.record_changes import RecordPolicy, apply_records, read_spooled
from pgrepl.replayer.shard.shard_result import Parking, ShardResult, StagedTable
from pgrepl.replayer.shard.together import apply_tables
from pgrepl.replayer.target_table import TableName, Tables
from pgrepl.store.parked import follow_parking
from pgrepl.store.progress.shard_progress import Fenced, move
from pgrepl.store.spool.spool_format import DDL_TABLE
from pgrepl.store.spool.spool_rows import PartKey, Sizes, weigh_parts
from pgrepl.store.tables.source_tables import add_unknown_table

__all__ = [
    "ShardTask",
    "TableStopped",
    "TooSlow",
    "run_shard",
    "stop_at",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """What a task needs to know. Holds secrets: it is pickled, never printed."""

    target: Endpoint = field(repr=False)
    source_id: int
    source: str
    shard: int
    from_seq: int
    to_seq: int
    first_lsn: Position
    to_lsn: Position
    buckets: Sequence[int]
    on_error: OnError
    on_conflict: OnConflict
    settings: ReplaySettings
    #: Under batch consistency: the beginning of the names of staging tables. None: apply.
    staging_prefix: str | None = None
    #: In how many sessions at once a big table may be applied.
    slice_count: int = 1
    #: How long a statement may take, where other sources wait for the task.
    limit_s: float | None = None
    #: Whether to look for who holds a lock: one was in the way when it was tried last.
    is_watched: bool = False

    def __str__(self) -> str:
        """Say whose work it is."""
        return f'shard {self.shard} of source "{self.source}"'


def run_shard(task: ShardTask) -> ShardResult | PgreplError:
    """Do the task; what goes wrong is returned, so that other shards are not disturbed."""
    work = _apply if task.staging_prefix is None else _stage
    with _no_collector():
        for attempt in range(1, task.settings.attempts + 1):
            try:
                return _attempt(task, work)
            except Fenced:
                return ShardResult(source_id=task.source_id, shard=task.shard, is_superseded=True)
            except PgreplError as exc:
                return exc
            except psycopg.Error as exc:
                # What is staged waits as a whole: whoever plans tries again, and others go on.
                is_locked = work is _stage and isinstance(exc, psycopg.errors.LockNotAvailable)
                is_last = attempt == task.settings.attempts or not is_transient(exc)
                if is_last or is_locked:
                    is_slow = task.limit_s and isinstance(exc, psycopg.errors.QueryCanceled)
                    words = f"cannot apply {task}"
                    return TooSlow(task.source) if is_slow else translate(exc, task.target, words)
            except Exception as exc:  # noqa: BLE001  one source's, and of no table that can be told
                return SpoolError(
                    f"cannot apply {task}: {unforeseen(exc)}",
                    hint="Other sources go on. Please report it with the log of --verbose.",
                )
    raise AssertionError("there is at least one attempt")


class TableStopped(DdlError):
    """A table cannot be applied, and that is to stop everything: ``on_error = "stop"``."""


class TooSlow(PgreplError):
    """A statement took longer than others can wait for: the source goes on by itself."""

    retry = Retry.TIMED

    def __init__(self, source: str) -> None:
        """Name the source."""
        self.source = source
        super().__init__(f'source "{source}": its changes take long to apply')

    def __reduce__(self) -> tuple[type[TooSlow], tuple[str]]:
        """Come back from another process as it was."""
        return TooSlow, (self.source,)


def stop_at(source: str, name: TableName, failed: TableFailed) -> TableStopped:
    """Return the error for a table that cannot be applied, under ``on_error = "stop"``."""
    return TableStopped(
        f'source "{source}": table {shown_name(*name)}: {failed.reason}',
        hint='Fix the table and start again, or set on_error = "park" to go on without it.',
    )


def _add_ignored(connection: Connection, source_id: int, chunk: Chunk) -> None:
    """Keep the changes of parked tables, and make unknown tables known."""
    for name, table in chunk.ignored.items():
        if name == DDL_TABLE:
            continue
        if table.is_parked:
            add_parts(connection, source_id, name, chunk.keys)
        elif not table.is_copied:
            add_unknown_table(connection, source_id, name)


def _attempt(
    task: ShardTask, work: Callable[[_Sessions, ShardTask, ShardResult], None]
) -> ShardResult:
    try:
        return _attempt_once(task, work)
    except NotSliced:
        return _attempt_once(replace(task, slice_count=1), work)


def _attempt_once(
    task: ShardTask, work: Callable[[_Sessions, ShardTask, ShardResult], None]
) -> ShardResult:
    result = ShardResult(source_id=task.source_id, shard=task.shard)
    with _open_sessions(task) as sessions:
        with sessions.writer.transaction():
            limit_statements(sessions.writer, task.limit_s)
            follow_parking(sessions.writer, task.source_id)
            with naming_blockers(task.target, sessions.writer, is_wanted=task.is_watched):
                work(sessions, task, result)
            reach("replayer.before_commit")
        reach("replayer.after_commit")
    return result


@dataclass(frozen=True, slots=True)
class _Sessions:
    """Where a task reads and where it writes; one and the same if there is little to read."""

    reader: Connection
    writer: Connection
    #: Of what is to be read.
    sizes: Sizes


@contextmanager
def _open_sessions(task: ShardTask) -> Iterator[_Sessions]:
    with lend_session(task.target, task.settings, "write") as writer:
        sizes = weigh_parts(writer, task.source_id, task.from_seq, task.to_seq, task.buckets)
        if sizes.weight <= task.settings.step_bytes:
            yield _Sessions(writer, writer, sizes)
            return
        # What the reader locks stays locked until the other one has committed.
        with lend_session(task.target, task.settings, "read") as reader, reader.transaction():
            yield _Sessions(reader, writer, sizes)


def _apply(sessions: _Sessions, task: ShardTask, result: ShardResult) -> None:
    connection = sessions.writer
    # First of all: a twin of this task waits here until we are done, and then finds itself fenced.
    move(
        connection,
        task.source_id,
        task.shard,
        from_seq=task.from_seq,
        to_seq=task.to_seq,
        to_lsn=task.to_lsn,
    )
    reach("replayer.fenced")
    ahead = find_ahead(connection, task)
    if ahead:
        task = replace(task, slice_count=1)
    #: Tables that cannot be applied, and whether they are parked; else they wait for their copy.
    parked: dict[TableName, bool] = {}
    with open_helpers(task, connection) as helpers:
        with _chunks(sessions, task) as chunks:
            for chunk in chunks:
                # Whoever reads does not see what is parked here and now.
                tables = [c for name, c in chunk.changes.items() if name not in parked]
                tables = [rest for c in tables if (rest := rest_of(c, ahead)) is not None]
                helpers.leave_whole(chunk.live)
                tables = [c for c in tables if not helpers.apply(c)]
                live = [changes for name, changes in chunk.live.items() if name not in parked]
                for name, failed in (
                    *_apply_tables(
                        connection, task, tables, keys=chunk.keys, ahead=ahead, result=result
                    ),
                    *_apply_live_tables(connection, task, live),
                ):
                    if isinstance(failed, TableLocked) and name in ahead:
                        # A part of its changes is applied: what waits would not be all of them.
                        raise failed.error
                    parked[name] = park(connection, task.source_id, name, failed)
                    if parked[name] and not isinstance(failed, TableLocked):
                        result.parked.append(Parking(name, failed.reason))
                for name in (chunk.changes.keys() | chunk.live.keys()) & parked.keys():
                    if parked[name]:
                        add_parts(connection, task.source_id, name, chunk.keys)
                _add_ignored(connection, task.source_id, chunk)
                result.count(chunk)
                reach("replayer.chunk_applied")
        helpers.commit()
    helpers.forget()
    if ahead:
        finish_ahead(connection, task, ahead)


def _apply_tables(
    connection: Connection,
    task: ShardTask,
    tables: Sequence[TableChanges],
    *,
    keys: Sequence[PartKey],
    ahead: Collection[TableName],
    result: ShardResult,
) -> Iterator[tuple[TableName, TableFailed]]:
    """Apply the changes of tables out of parts, and return those that cannot be applied."""
    policy = RecordPolicy(task.source_id, task.on_error, task.on_conflict)
    for changes, outcome in apply_tables(connection, tables, task.on_conflict, task.settings):
        name = changes.names
        if isinstance(outcome, Outcome):
            count_conflict(connection, task.source_id, name, outcome)
            continue
        failed = outcome
        # Of a table of which a part is applied already it is not known which records are.
        if name not in ahead:
            spooled = read_spooled(connection, task.source_id, name, keys)
            limit_waits(connection, task.settings.table_lock_s)
            try:
                count = apply_records(connection, policy, (name, changes.shape), spooled, failed)
            except TableFailed as exc:
                count, failed = None, exc
            limit_waits(connection, task.settings.lock_timeout_s)
            if count is not None:
                result.parked += [Parking(name, record_count=count)] if count else []
                continue
        if task.on_error == "stop" and not isinstance(failed, TableLocked):
            raise stop_at(task.source, name, failed) from failed
        yield name, failed


def _apply_live_tables(
    connection: Connection, task: ShardTask, tables: Sequence[SpooledChanges]
) -> Iterator[tuple[TableName, TableFailed]]:
    """Apply the changes of tables that are copied in chunks, and return those that cannot be."""
    for changes in tables:
        name = changes.table.name
        try:
            apply_live(connection, task.source_id, changes)
        except CopyLocked as locked:
            yield name, locked
        except TableLocked as locked:
            # It waits for its copy's own locks too, which are over soon.
            raise locked.error from locked
        except TableFailed as failed:
            if task.on_error == "stop":
                raise stop_at(task.source, name, failed) from failed
            yield name, failed


def _stage(sessions: _Sessions, task: ShardTask, result: ShardResult) -> None:
    # Spark may repeat a task whose staging tables exist already: each attempt has its own names.
    prefix = f"{task.staging_prefix}_{task.shard}_{uuid4().hex[:8]}"
    # All other sources of the job wait as long.
    limit_waits(sessions.writer, task.settings.table_lock_s)
    with _chunks(sessions, task) as chunks:
        for chunk in chunks:
            for name, changes in chunk.changes.items():
                place = ("replication", f"{prefix}_{len(result.staged)}")
                start = chunk.starts[name]
                try:
                    staging = stage_changes(sessions.writer, changes, place)
                    staged = StagedTable(name, chunk.keys, staging, start=start)
                except TableLocked as locked:
                    raise locked.error from locked
                except TableFailed as failed:
                    staged = StagedTable(name, chunk.keys, None, failed, start=start)
                result.staged.append(staged)
            result.staged += [
                StagedTable(name, chunk.keys, None) for name in chunk.ignored if name != DDL_TABLE
            ]
            result.staged += [
                StagedTable(name, chunk.keys, None, is_live=True) for name in chunk.live
            ]
            result.count(chunk)


@contextmanager
def _chunks(sessions: _Sessions, task: ShardTask) -> Iterator[Iterator[Chunk]]:
    """Read a task's part of the spool: where there are many chunks, one ahead."""
    reader = sessions.reader
    tables = Tables(reader, task.source_id, task.first_lsn, relies_on_known=True)
    tables.read_ahead(task.buckets)
    chunks = read_chunks(
        reader,
        tables,
        source_id=task.source_id,
        from_seq=task.from_seq,
        to_seq=task.to_seq,
        buckets=task.buckets,
        settings=task.settings,
        sizes=sessions.sizes,
    )
    if reader is sessions.writer:
        yield chunks
        return
    with one_ahead(chunks) as ahead:
        yield ahead


@contextmanager
def _no_collector() -> Iterator[None]:
    """Leave a chunk's many small objects to no collector: it took twice the time of the rest."""
    _freeze()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def _freeze() -> None:
    """Keep what was imported from the collector, which Spark runs after every task: for 30 ms."""
    gc.freeze()
