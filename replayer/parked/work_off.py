"""Work off parked tables: apply what waits, DDL in its place among the changes.

Tables that DDL waits for together are worked off together, in one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.config.model import Config, OnConflict
from pgrepl.config.naming import shown_name
from pgrepl.ddl import CapturedDdl
from pgrepl.decoding.formats import payload_decoder
from pgrepl.errors import DdlError, DdlStopped, TargetUnavailable, UsageError
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.chunked.apply import restart_copy
from pgrepl.replayer.parked.parked_tables import hold
from pgrepl.replayer.parked.spooled_records import apply_or_park
from pgrepl.replayer.serial.captured import make_captured, read_rows
from pgrepl.replayer.serial.line_replay import Handlers, LineReplay, Lines
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.apply import TableFailed, TableLocked
from pgrepl.replayer.shard.record_changes import RecordPolicy
from pgrepl.replayer.target_table import Table, TableName, Tables
from pgrepl.store.parked import (
    ParkedTable,
    add_history,
    fail_retry,
    follow_parking,
    lock_parked,
    read_interrupted,
    read_parkings,
    unpark,
)
from pgrepl.store.parked_ddl import (
    ParkedGroup,
    find_decided,
    find_group,
    note_tried,
    read_group_ddl,
    stream_group,
)
from pgrepl.store.resync.interrupted import release_interrupted, try_resync_locks
from pgrepl.store.sources import SourceRow, find_source
from pgrepl.store.tables.source_tables import add_unknown_table

if TYPE_CHECKING:
    from pgrepl.ddl_capture import Applier

__all__ = ["retry_table", "settle_decided"]

logger = logging.getLogger(__name__)


def retry_table(
    connection: Connection,
    config: Config,
    table: ParkedTable,
    ddl: Applier,
    settings: ReplaySettings,
    *,
    note: Callable[[], None] = lambda: None,
) -> int:
    """Apply all that waits for a table, in one transaction, and let it go on.

    Tables and DDL that wait with it are worked off with it, in the order of the source. ``note``
    writes down, in that transaction, what else is done with it.

    Raises
    ------
    DdlError
        when it still cannot be applied; everything stays as it was.

    """
    group = find_group(connection, table.source_id, table.name)
    work = _GroupWork(connection, table.source, group)
    try:
        with translated(config.target.endpoint, "cannot retry"), connection.transaction():
            hold(connection, table)
            count = work.run(config.replay.on_conflict, settings, ddl)
            add_history(connection, table, "retry", count, table.last_lsn)
            note()
    except TableFailed as failed:
        fail_retry(connection, table.source_id, table.name, failed.sqlstate, failed.reason)
        raise DdlError(
            f'source "{table.source}": table {shown_name(*table.name)}: {failed.reason}',
            hint="Nothing was applied. Fix the table on the target and retry, or give changes up"
            " with pgrepl parked skip.",
        ) from failed
    except DdlStopped as stopped:
        work.record_stop(ddl, stopped)
        raise
    reach("parked.retried")
    return count


def settle_decided(
    connection: Connection,
    config: Config,
    source: SourceRow,
    ddl: Applier,
    settings: ReplaySettings,
) -> bool:
    """Work off the groups about whose DDL a person decided; whether there were any.

    One that still cannot be applied stays as it was, with the error in ``ddl_pending``.
    """
    decided = find_decided(connection, source.source_id)
    for group in decided:
        work = _GroupWork(connection, source.name, group)
        try:
            with (
                translated(config.target.endpoint, "cannot apply DDL that waits"),
                connection.transaction(),
            ):
                follow_parking(connection, source.source_id)
                work.release()
                work.run(config.replay.on_conflict, settings, ddl)
            reach("ddl.settled")
        except TableFailed as failed:
            work.note_failure(failed)
            logger.warning("still parked: %s", failed.reason, extra={"source": source.name})
        except _StillCopied as exc:
            logger.debug(exc.message, extra={"source": source.name})
        except TargetUnavailable as exc:
            # It is tried again at the next look.
            logger.warning(exc.message, extra={"source": source.name, "hint": exc.hint})
        except DdlStopped as stopped:
            work.record_stop(ddl, stopped)
            logger.warning(stopped.message, extra={"source": source.name, "hint": stopped.hint})
    return bool(decided)


def _tell_parked(name: TableName, record_count: int) -> None:
    if record_count:
        logger.error(
            "parked records that cannot be applied",
            extra={"table": shown_name(*name), "records": record_count},
        )


class _StillCopied(TargetUnavailable):
    """What waits is for a table that is being copied, and is applied with the end of that."""

    def __init__(self, tables: Collection[TableName]) -> None:
        names = ", ".join(shown_name(*name) for name in sorted(tables))
        super().__init__(
            f"what waits is for a table that is being copied: {names}",
            hint="It goes on by itself when that is done. If no resync runs any more, run"
            " pgrepl resync.",
        )


class _GroupWork:
    """Parked tables that are worked off together, with the DDL that waits among their changes."""

    def __init__(self, connection: Connection, source: str, group: ParkedGroup) -> None:
        self._connection = connection
        self._group = group
        row = find_source(connection, source)
        if row is None:
            raise UsageError(f'source "{source}" was never copied')
        self._source = row
        self._captured: CapturedDdl | None = None

    def release(self) -> None:
        """Go on without copies that were broken off: they may wait for what waits for them."""
        self._lock()
        parkings = read_parkings(self._connection, self._source.source_id)
        for name in self._group.tables:
            # A resync that has copied the table applies what waits itself.
            if parkings.get(name) and not try_resync_locks(self._connection, self._source, name):
                raise _StillCopied([name])
        released = release_interrupted(self._connection, self._source, self._copied())
        left = [name for name in self._group.tables if name not in released]
        self._group = replace(self._group, tables=left)

    def _copied(self) -> set[TableName]:
        """Return the tables that a resync has in hand, or had."""
        interrupted = read_interrupted(self._connection, self._source.source_id)
        return set(self._group.tables) & interrupted.keys()

    def run(self, on_conflict: OnConflict, settings: ReplaySettings, ddl: Applier) -> int:
        """Apply all that waits inside the caller's transaction, and let the tables go on."""
        connection, source_id = self._connection, self._source.source_id
        self._lock()
        if copied := self._copied():
            # What waits may be in its copy or not, which the copy's end tells.
            raise _StillCopied(copied)
        applied = 0
        policy = RecordPolicy(source_id, "park", on_conflict)

        def apply(own: Table, lines: Lines) -> None:
            nonlocal applied
            changes = lines.spooled(own)
            _tell_parked(own.name, apply_or_park(connection, policy, changes))
            applied += changes.count

        def pass_over(name: TableName) -> None:
            add_unknown_table(connection, source_id, name)

        def keep(*_: object) -> None:
            raise AssertionError("no table is looked at as parked here")

        def fail(_own: Table, _lines: Lines, failed: TableFailed) -> None:
            raise failed

        def apply_ddl(lines: Lines) -> None:
            self._captured = make_captured(
                self._source, lines, self._read_rows, frozenset(self._group.tables)
            )
            ddl.apply(connection, self._captured)

        def restart(name: TableName) -> None:
            restart_copy(connection, source_id, name)

        handlers = Handlers(apply, restart, keep, pass_over, apply_ddl, fail)
        tables = Tables(connection, source_id, Lsn(0), ignores_parking=True)
        replay = LineReplay(connection, tables, handlers, settings.chunk_bytes)
        try:
            self._take_waiting(replay)
        except TableLocked as locked:
            raise locked.error from locked
        for name in self._group.tables:
            unpark(connection, source_id, name)
        reach("replayer.before_work_off_commit")
        return applied

    def _take_waiting(self, replay: LineReplay) -> None:
        """Apply all that waits, in its order."""
        source_id = self._source.source_id
        for form, encoding, payload, noted in stream_group(
            self._connection, source_id, self._group
        ):
            decoder = payload_decoder(form, encoding)
            count = noted
            if count is None:
                count = sum(not decoder.is_begin(item) for item in decoder.split(payload))
            replay.take_payload(decoder, payload, count)
        replay.finish()

    def _lock(self) -> None:
        """Keep others from adding to the group, which may have grown since it was found."""
        source_id = self._source.source_id
        while True:
            for name in self._group.tables:
                lock_parked(self._connection, source_id, name)
            if not self._group.tables:
                return
            found = find_group(self._connection, source_id, self._group.tables[0])
            if found == self._group:
                return
            self._group = found

    def record_stop(self, ddl: Applier, stopped: DdlStopped) -> None:
        """Keep why DDL still cannot be applied, after the rollback."""
        if self._captured is not None:
            ddl.record_stop(self._connection, self._captured, stopped)
        self._note_tried()

    def note_failure(self, failed: TableFailed) -> None:
        """Keep why changes still cannot be applied, after the rollback."""
        for name in self._group.tables:
            fail_retry(
                self._connection, self._source.source_id, name, failed.sqlstate, failed.reason
            )
        self._note_tried()

    def _note_tried(self) -> None:
        if self._group.group_id is not None:
            note_tried(self._connection, self._source.source_id, self._group.group_id)

    def _read_rows(self) -> Iterator[Mapping[str, str | None]]:
        source_id = self._source.source_id
        for name, encoding, payload in read_group_ddl(
            self._connection, source_id, self._group.group_id
        ):
            yield from read_rows(payload_decoder(name, encoding), payload)
