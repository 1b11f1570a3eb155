"""The Spark job of a batch: one task per shard that has something to do.

Nobody waits for Spark to start: until it is there the driver itself runs the tasks of small
batches.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pgrepl.config.model import SparkConfig
from pgrepl.errors import ConfigError, PgreplError, Retry
from pgrepl.failpoint import reach
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.shard_result import ShardResult
from pgrepl.replayer.shard.task import ShardTask, run_shard
from pgrepl.spark.archive_maker import ArchiveMaker
from pgrepl.spark.background import SessionInBackground

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DAEMON", "Cores", "JobFailed", "ShardJobs"]

logger = logging.getLogger(__name__)

_APP_NAME = "pgrepl-replay"
_LOOK_S = 0.1

#: The module from which Spark's workers are forked.
DAEMON = "pgrepl.replayer.spark_daemon"


class JobFailed(PgreplError):
    """Spark lost tasks: an executor or a worker died. What was committed stays, the rest waits."""

    retry = Retry.TIMED


class ShardJobs:
    """Runs the tasks of batches on Spark, whose session starts in the background."""

    def __init__(self, config: SparkConfig, settings: ReplaySettings) -> None:
        """Prepare; Spark does not start yet."""
        self._config = config
        self._settings = settings
        self._spark: SessionInBackground | None = None
        self._by_driver = 0
        self._maker: ArchiveMaker | None = None
        self._is_service = False
        #: How often Spark did not start, one after the other.
        self._failed_count = 0
        #: Several threads may use it.
        self._lock = threading.Lock()
        self._cores = Cores()

    def start(self, *, is_service: bool = False) -> None:
        """Begin to start Spark, if nobody has; return at once.

        A service has time to make the next start a cheaper one, and to try again.

        Raises
        ------
        ConfigError
            when it is known by now that it does not start.
        JobFailed
            when it did not start this time.

        """
        with self._lock:
            self._is_service |= is_service
            spark = self._spark
            if spark is None:
                logger.info("starting Spark", extra={"master": self._config.shown_master})
                self._spark = SessionInBackground(
                    self._config,
                    _APP_NAME,
                    daemon=DAEMON,
                    warm_up=_start_workers if self._is_service else None,
                )
        if spark is not None and not spark.is_starting:
            self._started(spark)
            if self._maker is None and is_service:
                self._maker = ArchiveMaker()

    def wait(self, change_count: int, is_stopping: threading.Event) -> bool:
        """Wait until that many changes can be applied; False when the program is to stop instead.

        A few changes wait for nothing: they go to Spark only if it is there.
        """
        if self._by_driver + change_count > self._settings.driver_changes:
            # The next ones may be many.
            self.start()
        while change_count > self._settings.driver_changes and self._is_starting():
            if is_stopping.wait(_LOOK_S):
                return False
        return True

    def run(
        self, tasks: Sequence[ShardTask], change_count: int, *, is_alone: bool = False
    ) -> Sequence[ShardResult | PgreplError]:
        """Run tasks side by side and return what each of them says, in order.

        Until Spark is there the tasks of a few changes are run here, one after the other.
        ``is_alone``: they are of a source whose job may be long, and leave a core to the others.

        Raises
        ------
        JobFailed
            when some of them ended without a word.

        """
        if change_count <= self._settings.driver_changes and (
            self._spark is None or self._is_starting()
        ):
            self._by_driver += change_count
            return [run_shard(task) for task in tasks]
        self.start()
        is_little = change_count <= self._settings.one_task_changes
        count = 1 if is_little else len(tasks)
        if not is_alone:
            return self._run_on_spark(tasks, count)
        with self._cores.taken(count, self._core_count() - 1) as core_count:
            return self._run_on_spark(tasks, core_count)

    def _run_on_spark(
        self, tasks: Sequence[ShardTask], task_count: int
    ) -> Sequence[ShardResult | PgreplError]:
        spark = self._session()
        context: Any = self._started(spark).sparkContext
        with self._talking_to(spark):
            context.setJobDescription(_describe(tasks))
            # What Spark shows as the name of the stage.
            context.setLocalProperty("callSite.short", _describe(tasks))
            numbered = context.parallelize(list(tasks), task_count).setName(_APP_NAME)
            # A job costs the JVM a fifth less than by collect(), which reads the class of RDDs each
            # time to see what its closure needs.
            results: Sequence[ShardResult | PgreplError] = context.runJob(numbered, _run_shards)
        reach("replayer.after_job")
        return results

    def stop(self) -> None:
        """End the session, or its start, if there is one."""
        if self._maker is not None:
            self._maker.stop()
        if self._spark is not None:
            self._end(self._spark)

    def _session(self) -> SessionInBackground:
        with self._lock:
            if self._spark is None:
                raise JobFailed("Spark has ended")
            return self._spark

    def _started(self, spark: SessionInBackground) -> SparkSession:
        """Wait until it is there. A JVM that is killed while it starts must not end a service."""
        try:
            session = spark.session()
        except ConfigError as exc:
            self._end(spark)
            self._failed_count += 1
            if not self._is_service or self._failed_count >= self._settings.attempts:
                raise
            raise JobFailed(exc.message, hint=exc.hint) from exc
        self._failed_count = 0
        return session

    @contextmanager
    def _talking_to(self, spark: SessionInBackground) -> Iterator[None]:
        """Take whatever goes wrong for a sign that Spark, or some of it, has ended."""
        try:
            yield
        except Exception as exc:
            # Whether Spark itself has ended will be seen when it is needed next.
            self._end(spark)
            raise JobFailed(
                "Spark lost a replay task",
                hint="An executor or its Python worker ended; Spark's log says why. What it had"
                " not committed is applied again.",
            ) from exc

    def _is_starting(self) -> bool:
        spark = self._spark
        return spark is not None and spark.is_starting

    def _core_count(self) -> int:
        spark = self._session()
        self._started(spark)
        with self._talking_to(spark):
            return spark.jobs

    def _end(self, spark: SessionInBackground) -> None:
        """End a session, unless another thread has; what runs in it fails and is repeated."""
        with self._lock:
            if self._spark is not spark:
                return
            self._spark = None
        spark.stop()


def _run_shards(tasks: Iterator[ShardTask]) -> list[ShardResult | PgreplError]:
    """Do the tasks of a partition, one after the other."""
    return [run_shard(task) for task in tasks]


def _start_workers(session: SparkSession) -> None:
    """Have Spark start its Python: the first job takes seconds, which small batches must not wait.

    A run that ends by itself has its whole backlog to wait for, and begins with that.
    """
    context: Any = session.sparkContext
    context.setJobDescription("start workers")
    count = context.defaultParallelism
    context.parallelize(range(count), count).map(abs).collect()


class Cores:
    """The cores that long jobs share, so that one is always left for a short one."""

    def __init__(self) -> None:
        """Take none."""
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, most: int, of: int) -> Iterator[int]:
        """Take cores, waiting for the first, and yield how many they are."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken < max(of, 1))
            count = min(most, max(of, 1) - self._taken)
            self._taken += count
        try:
            yield count
        finally:
            with self._changed:
                self._taken -= count
                self._changed.notify_all()


def _describe(tasks: Sequence[ShardTask]) -> str:
    """Say which sources, positions and shards a job is about."""
    shards: dict[str, list[ShardTask]] = {}
    for task in tasks:
        shards.setdefault(task.source, []).append(task)
    return "; ".join(
        f"{source} {own[0].first_lsn} to {own[0].to_lsn}"
        f" shards {','.join(str(task.shard) for task in own)}"
        for source, own in shards.items()
    )
