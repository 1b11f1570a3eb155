"""Apply a batch: the shards' part by Spark, a transaction with DDL or TRUNCATE by itself.

Several sources in several threads may use it at once, each source in one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg

from pgrepl.config.model import Config
from pgrepl.config.naming import shown_name
from pgrepl.errors import PgreplError
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.batch_commit import merge_batch, staging_prefix
from pgrepl.replayer.parked.lock_watch import naming_blockers
from pgrepl.replayer.serial.transaction import SerialTransaction
from pgrepl.replayer.session import lend_session, limit_statements, open_session
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.shard_result import ShardResult
from pgrepl.replayer.shard.task import TableStopped, TooSlow
from pgrepl.replayer.source_queue import SourceWork, Work, shard_tasks
from pgrepl.replayer.spark_job import JobFailed, ShardJobs
from pgrepl.store.monitoring import failures
from pgrepl.store.monitoring.counters import count_batch
from pgrepl.store.progress.shard_progress import finish

if TYPE_CHECKING:
    # Who starts replay brings them: the tasks of Spark do without them.
    from pgrepl.ddl_capture import Applier
    from pgrepl.housekeeping import Housekeeper

__all__ = ["Batches", "Planned"]

logger = logging.getLogger(__name__)

_STAGE: failures.Stage = "replay"

_SEE_RECORDS = "See why with: pgrepl parked records"

Planned = tuple[SourceWork, Work]


class Batches:
    """Applies batches, and records what became of them."""

    def __init__(
        self,
        config: Config,
        ddl: Applier,
        settings: ReplaySettings,
        jobs: ShardJobs,
        *,
        upkeep: Housekeeper | None,
        is_stopping: threading.Event,
    ) -> None:
        """Prepare; nothing is connected yet."""
        self._config = config
        self._target = config.target.endpoint
        self._ddl = ddl
        self._settings = settings
        self._jobs = jobs
        self._upkeep = upkeep
        self._is_stopping = is_stopping

    def run_one(self, control: Connection, own: SourceWork, work: Work, *, is_only: bool) -> None:
        """Apply the batch of a source, of whatever kind; ``is_only``: there is no other source."""
        if work.batch.kind == "serial":
            self._run_serial(control, own, work)
        else:
            self.run_parallel(control, [(own, work)], is_alone=not is_only)

    def run_parallel(
        self,
        control: Connection,
        planned: Sequence[Planned],
        *,
        limit_s: float | None = None,
        is_alone: bool = False,
    ) -> None:
        """Apply batches of several sources in one job.

        ``limit_s``: none of their statements may take longer, for others wait. ``is_alone``: others
        have jobs at the same time.
        """
        if not planned:
            return
        count = sum(work.batch.change_count for _, work in planned)
        if not self._jobs.wait(count, self._is_stopping):
            return
        is_whole = self._config.replay.consistency == "batch"
        run = uuid4().hex[:8]
        tasks = []
        for own, work in planned:
            # Shards that are apart can only be brought together one by one.
            prefix = (lambda i: f"{staging_prefix(i)}{run}") if is_whole and work.is_even else None
            made = shard_tasks(work, self._target, self._config.replay, self._settings, prefix)
            tasks += [replace(task, limit_s=limit_s, is_watched=own.is_locked) for task in made]
        begin = time.monotonic()
        try:
            results = self._jobs.run(tasks, count, is_alone=is_alone) if tasks else ()
        except JobFailed as exc:
            for own, _ in planned:
                self.fail(control, own, exc)
            return
        reach("replayer.before_finish")
        for own, work in planned:
            mine = [
                result
                for task, result in zip(tasks, results, strict=True)
                if task.source_id == work.source.source_id
            ]
            try:
                self._finish(
                    *(control, own, work, mine),
                    is_whole=is_whole and work.is_even,
                    limit_s=limit_s,
                )
            except TooSlow as exc:
                logger.debug("alone: %s", exc.message, extra={"source": own.source.name})
                own.is_slow = True
            except PgreplError as exc:
                self.fail(control, own, exc)
            else:
                own.learn(mine, self._settings)
                self._applied(control, own, work, time.monotonic() - begin)

    def _finish(
        self,
        control: Connection,
        own: SourceWork,
        work: Work,
        results: Sequence[ShardResult | PgreplError],
        *,
        is_whole: bool,
        limit_s: float | None,
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
                    limit_statements(connection, limit_s)
                    try:
                        with naming_blockers(self._target, connection, is_wanted=own.is_locked):
                            own.parked += merge_batch(
                                connection,
                                work.source,
                                batch,
                                done,
                                on_error=replay.on_error,
                                on_conflict=replay.on_conflict,
                                settings=self._settings,
                            )
                    except psycopg.errors.QueryCanceled as exc:
                        if limit_s is None:
                            raise
                        raise TooSlow(own.source.name) from exc
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
                naming_blockers(self._target, connection, is_wanted=own.is_locked),
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
                self.fail(control, own, exc)
            else:
                logger.debug("one by one: %s", exc.message, extra={"source": own.source.name})
                own.take_apart(work.batch)
        else:
            self._applied(control, own, work, time.monotonic() - begin)

    def _applied(self, control: Connection, own: SourceWork, work: Work, seconds: float) -> None:
        # The first batch may be the one that an earlier process failed at.
        if own.error is not None or not own.batch_count:
            failures.clear(control, _STAGE, own.source.source_id)
        own.go_on(work.batch, seconds, self._settings)
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
            about = {"source": own.source.name, "table": shown_name(*parking.name)}
            if parking.record_count:
                about |= {"records": str(parking.record_count), "hint": _SEE_RECORDS}
                logger.error("parked records that cannot be applied", extra=about)
            else:
                logger.error("parked", extra=about | {"reason": parking.reason})

    def fail(self, control: Connection, own: SourceWork, error: PgreplError) -> None:
        """Leave a source alone for a while, and record why."""
        if own.error is None or own.error.message != error.message:
            logger.error(error.message, extra={"source": own.source.name, "hint": error.hint})
        own.fail(error, self._settings)
        failures.record(control, _STAGE, own.source.source_id, error)
        if isinstance(error, TableStopped):
            raise error
