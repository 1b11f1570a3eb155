"""Replay all sources for as long as it takes: batch after batch, and a wait when all is applied."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from pgrepl.config.model import Config
from pgrepl.config.naming import shown_name
from pgrepl.errors import AlreadyRunning, PgreplError, Retry
from pgrepl.failpoint import reach
from pgrepl.position import Position
from pgrepl.postgres.advisory_locks import take_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.batch_commit import drop_staging, merge_batch, staging_prefix
from pgrepl.replayer.listener import Listener
from pgrepl.replayer.pacing import Pause, seconds_apart
from pgrepl.replayer.parked.locked_tables import LockedTables
from pgrepl.replayer.parked.settling import Settler
from pgrepl.replayer.result import SourceResult, make_result
from pgrepl.replayer.serial.transaction import SerialTransaction
from pgrepl.replayer.session import lend_session, open_session
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.task import ShardResult, TableStopped
from pgrepl.replayer.source_queue import SourceWork, Work, set_ends, shard_tasks
from pgrepl.replayer.spark_job import JobFailed, ShardJobs
from pgrepl.retry import Backoff
from pgrepl.store.migrations import migrate
from pgrepl.store.monitoring import failures
from pgrepl.store.monitoring.counters import count_batch
from pgrepl.store.pauses import read_pauses
from pgrepl.store.progress.shard_progress import (
    begin_progress,
    finish,
    follow_idle,
)
from pgrepl.store.sources import find_source

if TYPE_CHECKING:
    # Who starts replay brings them: the tasks of Spark do without them.
    from pgrepl.ddl_capture import Applier
    from pgrepl.housekeeping import Housekeeper
    from pgrepl.resync import Resyncer

__all__ = ["Replayer", "SourceResult"]

logger = logging.getLogger(__name__)

_STAGE: failures.Stage = "replay"


class Replayer:
    """Replays into one target; ``stop`` ends it from a signal handler or another thread."""

    def __init__(
        self,
        config: Config,
        ddl: Applier,
        settings: ReplaySettings | None = None,
        *,
        upkeep: Housekeeper | None = None,
        resync: Resyncer | None = None,
    ) -> None:
        """Prepare; nothing is connected yet."""
        self._config = config
        self._target = config.target.endpoint
        self._ddl = ddl
        self._settings = settings or ReplaySettings()
        self._upkeep = upkeep
        self._resync = resync
        self._is_stopping = threading.Event()
        self._jobs = ShardJobs(config.spark, self._settings)
        self._settler = Settler(config, ddl, self._settings)
        self._locked = LockedTables(self._target, config.replay, self._settings)

    def stop(self) -> None:
        """End after the batch in hand."""
        self._is_stopping.set()

    def run(
        self, *, once: bool = False, until: Mapping[str, Position] | None = None
    ) -> list[SourceResult]:
        """Apply the spool: all that is there now (once), up to positions, or until stopped.

        Raises
        ------
        AlreadyRunning
            when another replayer runs on the target.

        """
        is_ending = once or bool(until)
        backoff = Backoff(self._settings.backoff_s, self._settings.backoff_limit_s)
        try:
            while True:
                try:
                    return self._run_session(is_ending=is_ending, until=until or {})
                except PgreplError as exc:
                    if is_ending or self._is_stopping.is_set() or not _passes(exc):
                        raise
                    pause_s = backoff.fail()
                    logger.warning("%s; trying again", exc.message, extra={"in_seconds": pause_s})
                    self._is_stopping.wait(pause_s)
        finally:
            self._locked.stop()
            self._jobs.stop()
            if self._resync is not None:
                self._resync.stop()
            if self._upkeep is not None:
                # A job of cron has no other time for it.
                self._upkeep.stop(None if is_ending and not self._is_stopping.is_set() else 0.0)

    def _run_session(self, *, is_ending: bool, until: Mapping[str, Position]) -> list[SourceResult]:
        with (
            closing(connect(self._target, _STAGE)) as control,
            closing(Listener(self._target)) as listener,
            translated(self._target, "cannot replay"),
        ):
            take_lock(control, "replay")
            migrate(control, self._target)
            works: dict[int, SourceWork] = {}
            self._open_sources(control, works)
            if is_ending:
                set_ends(control, works.values(), until)
            self._work_off(control, listener, works, is_ending=is_ending)
            while is_ending and self._finish_resyncs(control, works.values()):
                # DDL on those tables may have waited for it.
                self._work_off(control, listener, works, is_ending=is_ending)
            return [make_result(control, work) for work in works.values()]

    def _open_sources(self, control: Connection, works: dict[int, SourceWork]) -> None:
        """Take up sources that are copied, and leave those that are dropped or copied again."""
        found = [find_source(control, name) for name in self._config.sources]
        streaming = {row.source_id: row for row in found if row and row.state == "streaming"}
        for source_id in works.keys() - streaming.keys():
            logger.warning('source "%s" does not exist any more', works.pop(source_id).source.name)
        for source_id in streaming.keys() - works.keys():
            begin_progress(control, source_id, self._config.replay.shards)
            drop_staging(control, source_id)
            works[source_id] = SourceWork(streaming[source_id])
            logger.info("replaying", extra={"source": streaming[source_id].name})

    def _work_off(
        self,
        control: Connection,
        listener: Listener,
        works: dict[int, SourceWork],
        *,
        is_ending: bool,
    ) -> None:
        attempts = 0
        while not self._is_stopping.is_set():
            listener.clear()
            begin = time.monotonic()
            if not is_ending:
                self._jobs.start(is_service=True)
                self._open_sources(control, works)
                self._look_for_resyncs(control, works.values())
            self._settler.look(control, [work.source for work in works.values()])
            self._locked.look(control, works.keys())
            applied = self._round(control, works.values())
            if applied:
                attempts = 0
                if not is_ending:
                    self._pause(listener, begin, applied)
                continue
            self._note_idle(control, works.values())
            failed = [work for work in works.values() if work.error is not None]
            if is_ending:
                if self._locked.finish(control, works.keys()):
                    # DDL may wait with those tables.
                    self._settler.look_soon()
                    continue
                attempts += 1
                is_over = attempts >= self._settings.attempts
                if is_over or not any(_passes(work.error) for work in failed):
                    return
            waits = [work.seconds_to_wait() for work in failed]
            wait_s = min([*waits, self._settings.idle_s])
            gathering = Pause(0, self._settings.pace_s, self._settings.hold_bytes)
            listener.wait(wait_s, gathering, self._is_stopping)

    def _note_idle(self, control: Connection, works: Iterable[SourceWork]) -> None:
        """Let sources of which all is applied follow, and their tables be looked after."""
        for work in works:
            if work.error is None and not work.is_paused:
                follow_idle(control, work.source.source_id)
                if self._upkeep is not None:
                    self._upkeep.caught_up(work.source)

    def _pause(self, listener: Listener, begin: float, applied: Sequence[Work]) -> None:
        """Wait until the next batch is worth its price."""
        if any(work.has_more for work in applied):
            return
        newest = [work.batch.last_commit_at for work in applied]
        apart = seconds_apart(newest, datetime.now(UTC), self._settings)
        pause = Pause(*apart, self._settings.hold_bytes)
        listener.pause(begin, pause, self._is_stopping)

    def _look_for_resyncs(self, control: Connection, works: Iterable[SourceWork]) -> None:
        if self._resync is not None:
            for work in works:
                if not work.is_paused:
                    self._resync.look(control, work.source)

    def _finish_resyncs(self, control: Connection, works: Iterable[SourceWork]) -> bool:
        """Copy what is due, as a job of cron has no other time, and say whether that was any."""
        resync = self._resync
        if resync is None or self._is_stopping.is_set():
            return False
        is_any = False
        for work in works:
            # A source that was not asked for ends at 0.
            is_asked = work.end_seq != 0 and not work.is_paused
            is_any |= is_asked and resync.finish(control, work.source)
        return is_any

    def _round(self, control: Connection, works: Iterable[SourceWork]) -> Sequence[Work]:
        """Apply the next batch of every source that has one, and return what was applied."""
        planned: list[tuple[SourceWork, Work]] = []
        paused = read_pauses(control)
        for own in works:
            own.is_paused = own.source.source_id in paused
            if own.is_waiting() or own.is_paused:
                continue
            try:
                work = own.plan(control, self._config.replay, self._settings)
            except PgreplError as exc:
                self._fail(control, own, exc)
                continue
            if work is not None:
                planned.append((own, work))
        self._run_parallel(control, [p for p in planned if p[1].batch.kind == "parallel"])
        for own, work in planned:
            if work.batch.kind == "serial":
                self._run_serial(control, own, work)
        return [work for own, work in planned if own.error is None]

    def _run_parallel(
        self, control: Connection, planned: Sequence[tuple[SourceWork, Work]]
    ) -> None:
        if not planned:
            return
        count = sum(work.batch.change_count for _, work in planned)
        if not self._jobs.wait(count, self._is_stopping):
            return
        is_whole = self._config.replay.consistency == "batch"
        run = uuid4().hex[:8]
        tasks = []
        for _, work in planned:
            # Shards that are apart can only be brought together one by one.
            prefix = (lambda i: f"{staging_prefix(i)}{run}") if is_whole and work.is_even else None
            tasks += shard_tasks(work, self._target, self._config.replay, self._settings, prefix)
        begin = time.monotonic()
        try:
            results = self._jobs.run(tasks, count) if tasks else ()
        except JobFailed as exc:
            for own, _ in planned:
                self._fail(control, own, exc)
            return
        reach("replayer.before_finish")
        for own, work in planned:
            mine = [
                result
                for task, result in zip(tasks, results, strict=True)
                if task.source_id == work.source.source_id
            ]
            try:
                self._finish(control, own, work, mine, is_whole=is_whole and work.is_even)
            except PgreplError as exc:
                self._fail(control, own, exc)
            else:
                self._applied(control, own, work, time.monotonic() - begin)

    def _finish(
        self,
        control: Connection,
        own: SourceWork,
        work: Work,
        results: Sequence[ShardResult | PgreplError],
        *,
        is_whole: bool,
    ) -> None:
        errors = [result for result in results if isinstance(result, PgreplError)]
        done = [result for result in results if isinstance(result, ShardResult)]
        for result in done:
            own.parked += result.parked
        if errors:
            raise errors[0]
        replay = self._config.replay
        batch = work.batch
        with translated(self._target, "cannot finish the batch"):
            if is_whole:
                with closing(open_session(self._target, self._settings)) as connection:
                    # A crash of the target empties staging tables (unlogged), and breaks every
                    # session: as this one is whole and older than they are, so are they.
                    control.execute("select")
                    own.parked += merge_batch(
                        connection,
                        work.source,
                        batch,
                        done,
                        on_error=replay.on_error,
                        on_conflict=replay.on_conflict,
                        settings=self._settings,
                    )
            else:
                finish(control, work.source.source_id, batch.to_seq, batch.last_lsn)
        reach("replayer.after_finish")

    def _run_serial(self, control: Connection, own: SourceWork, work: Work) -> None:
        begin = time.monotonic()
        replay = self._config.replay
        if self._upkeep is not None:
            # DDL and TRUNCATE would wait for an index in the making, and it for them.
            self._upkeep.stop()
        try:
            with (
                lend_session(self._target, self._settings, "serial") as connection,
                translated(self._target, f"cannot apply the transaction at {work.batch.first_lsn}"),
            ):
                serial = SerialTransaction(
                    connection,
                    work.source,
                    work.batch,
                    on_error=replay.on_error,
                    on_conflict=replay.on_conflict,
                    ddl_on_error=self._config.ddl.on_error,
                    ddl=self._ddl,
                    settings=self._settings,
                    sets_aside=replay.consistency == "shard",
                )
                serial.run()
            own.parked += serial.parked
        except PgreplError as exc:
            if work.batch.is_single:
                self._fail(control, own, exc)
            else:
                logger.debug("one by one: %s", exc.message, extra={"source": own.source.name})
                own.take_apart(work.batch)
        else:
            self._applied(control, own, work, time.monotonic() - begin)

    def _applied(self, control: Connection, own: SourceWork, work: Work, seconds: float) -> None:
        # The first batch may be the one that an earlier process failed at.
        if own.error is not None or not own.batch_count:
            failures.clear(control, _STAGE, own.source.source_id)
        own.go_on(work.batch)
        count_batch(
            control,
            own.source.source_id,
            work.batch.kind,
            change_count=work.batch.change_count,
            seconds=seconds,
        )
        # A service logs now and then; a job of cron has few batches.
        level = logging.INFO if own.is_report_due(self._settings.report_s) else logging.DEBUG
        logger.log(
            level,
            "applied",
            extra={
                "source": own.source.name,
                "lsn": str(work.batch.last_lsn),
                "changes": work.batch.change_count,
                "seconds": round(seconds, 2),
            },
        )
        for parking in own.take_parked():
            logger.error(
                "parked",
                extra={
                    "source": own.source.name,
                    "table": shown_name(*parking.name),
                    "reason": parking.reason,
                },
            )

    def _fail(self, control: Connection, own: SourceWork, error: PgreplError) -> None:
        if own.error is None or own.error.message != error.message:
            logger.error(error.message, extra={"source": own.source.name, "hint": error.hint})
        own.fail(error, self._settings)
        failures.record(control, _STAGE, own.source.source_id, error)
        if isinstance(error, TableStopped):
            raise error


def _passes(error: PgreplError | None) -> bool:
    """Whether an error passes by itself; that another replayer runs is for a person to see."""
    return (
        error is not None and error.retry is Retry.TIMED and not isinstance(error, AlreadyRunning)
    )
