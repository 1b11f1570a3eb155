"""Replay all sources for as long as it takes: batch after batch, and a wait when all is applied."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from pgrepl.config.model import Config
from pgrepl.errors import AlreadyRunning, PgreplError, Retry
from pgrepl.position import Position
from pgrepl.postgres.advisory_locks import take_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.batch_commit import drop_staging
from pgrepl.replayer.listener import Listener
from pgrepl.replayer.pacing import Pause, seconds_apart
from pgrepl.replayer.parked.locked_tables import LockedTables
from pgrepl.replayer.parked.settling import Settler
from pgrepl.replayer.result import SourceResult, make_result
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.source_batch import Batches, Planned
from pgrepl.replayer.source_queue import SourceWork, Work, set_ends
from pgrepl.replayer.source_threads import SourceThreads
from pgrepl.replayer.spark_job import ShardJobs
from pgrepl.retry import Backoff
from pgrepl.store.migrations import migrate
from pgrepl.store.pauses import read_pauses
from pgrepl.store.progress.shard_progress import (
    begin_progress,
    find_behind,
    find_followers,
    follow_idle,
)
from pgrepl.store.sources import find_sources

if TYPE_CHECKING:
    # Who starts replay brings them: the tasks of Spark do without them.
    from pgrepl.ddl_capture import Applier
    from pgrepl.housekeeping import Housekeeper
    from pgrepl.resync import Resyncer

__all__ = ["Replayer", "SourceResult"]

logger = logging.getLogger(__name__)

_STAGE = "replay"


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
        jobs: ShardJobs | None = None,
    ) -> None:
        """Prepare; nothing is connected yet. ``jobs`` are the caller's to stop, if given."""
        self._config = config
        self._target = config.target.endpoint
        self._settings = settings or ReplaySettings()
        self._upkeep = upkeep
        self._resync = resync
        self._is_stopping = threading.Event()
        self._jobs = jobs or ShardJobs(config.spark, self._settings)
        self._has_own_jobs = jobs is None
        self._batches = Batches(
            *(config, ddl, self._settings, self._jobs),
            upkeep=upkeep,
            is_stopping=self._is_stopping,
        )
        self._threads = SourceThreads(self._target)
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
            if self._has_own_jobs:
                self._jobs.stop()
            if self._resync is not None:
                self._resync.stop()
            if self._upkeep is not None:
                # A job of cron has no other time for it.
                self._upkeep.stop(None if is_ending and not self._is_stopping.is_set() else 0.0)

    def _run_session(self, *, is_ending: bool, until: Mapping[str, Position]) -> list[SourceResult]:
        with (
            closing(connect(self._target, _STAGE)) as control,
            closing(Listener(self._target, is_at_once=not is_ending)) as listener,
            # Whatever ends the session, those who still work for a source end first.
            self._threads,
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
        found = find_sources(control, self._config.sources)
        streaming = {row.source_id: row for row in found if row.state == "streaming"}
        for source_id in works.keys() - streaming.keys():
            logger.warning('source "%s" does not exist any more', works.pop(source_id).source.name)
        for source_id in streaming.keys() - works.keys() - self._threads.busy:
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
            self._settle(control, works)
            self._locked.look(control, works.keys() - self._busy)
            applied = self._round(control, works.values())
            ended = self._threads.collect(self._settings.thread_s)
            is_any_done = any(works[i].error is None for i in ended if i in works)
            if applied or is_any_done:
                attempts = 0
                if not is_ending and applied:
                    self._pause(listener, begin, applied, works.values())
                continue
            self._note_idle(control, works.values())
            if is_ending and self._threads.busy:
                self._threads.collect(None)
                continue
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

    def _settle(self, control: Connection, works: Mapping[int, SourceWork]) -> None:
        """Have done what people decided, beside the batches of other sources."""
        free = [own.source for own in works.values() if own.source.source_id not in self._busy]
        for source in self._settler.look(control, free):
            self._threads.start(source.source_id, partial(self._settler.settle, source=source))
            self._threads.collect(self._settings.thread_s)

    @property
    def _busy(self) -> AbstractSet[int]:
        return self._threads.busy

    def _note_idle(self, control: Connection, works: Iterable[SourceWork]) -> None:
        """Let sources of which all is applied follow, and their tables be looked after."""
        behind = find_followers(control)
        for work in works:
            if work.source.source_id in self._busy:
                continue
            if work.error is None and not work.is_paused:
                if work.source.source_id in behind:
                    follow_idle(control, work.source.source_id)
                if self._upkeep is not None:
                    self._upkeep.caught_up(work.source)

    def _pause(
        self,
        listener: Listener,
        begin: float,
        applied: Sequence[Work],
        works: Iterable[SourceWork],
    ) -> None:
        """Wait until the next batch is worth its price."""
        if any(work.has_more for work in applied):
            return
        newest = [work.batch.last_commit_at for work in applied]
        apart = seconds_apart(newest, datetime.now(UTC), self._settings)
        pause = Pause(*apart, max([self._settings.hold_bytes, *(own.hold_bytes for own in works)]))
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
        planned: list[Planned] = []
        paused = read_pauses(control)
        behind = find_behind(control, self._config.replay.shards)
        is_only = len(self._config.sources) == 1
        for own in works:
            source_id = own.source.source_id
            own.is_paused = source_id in paused
            if source_id in self._busy or source_id not in behind:
                continue
            if own.is_waiting() or own.is_paused:
                continue
            try:
                work = own.plan(control, self._config.replay, self._settings)
            except PgreplError as exc:
                self._batches.fail(control, own, exc)
                continue
            if work is not None:
                planned.append((own, work))
        if is_only:
            for own, work in planned:
                self._batches.run_one(control, own, work, is_only=True)
            return [work for own, work in planned if own.error is None]
        together = [(o, w) for o, w in planned if not o.is_long(w.batch, self._settings)]
        for own, work in planned:
            if own.is_long(work.batch, self._settings):
                job = partial(self._batches.run_one, own=own, work=work, is_only=False)
                self._threads.start(own.source.source_id, job)
        self._batches.run_parallel(control, together, limit_s=self._settings.shared_s)
        return [work for own, work in together if own.error is None]


def _passes(error: PgreplError | None) -> bool:
    """Whether an error passes by itself; that another replayer runs is for a person to see."""
    return (
        error is not None and error.retry is Retry.TIMED and not isinstance(error, AlreadyRunning)
    )
