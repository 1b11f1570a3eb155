"""Who copies: tasks of Spark, and processes of our own for as long as Spark takes to start.

Every lane pulls parts until none is left, so that it connects once, imports the snapshot once, and
is never idle while a part is left; and ``--jobs`` holds on every kind of cluster. On this machine a
lane begins as a process of our own. A big copy goes on as a task when the session is up; a smaller
one would be over before the start is paid for. On a cluster the executors copy, and nobody else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress

from pgrepl.basebackup.helper import Helper
from pgrepl.basebackup.parts import Part
from pgrepl.basebackup.worker import CopyTask, TaskReport, run_task
from pgrepl.config import SparkConfig
from pgrepl.errors import ConfigError, PgreplError
from pgrepl.spark import local_cores
from pgrepl.spark_background import SessionInBackground

__all__ = ["CopyJob", "Crew"]

logger = logging.getLogger(__name__)

_APP_NAME = "pgrepl-basebackup"
#: On two cores that copy, a session takes 20 s to start, in which they copy two thirds of what they
#: else would. From this size on that is less than a twentieth of the time.
_SPARK_FROM_BYTES = 16 * 1024 * 1024 * 1024


class Crew:
    """Everybody who can copy, made ready while the slot and the schema are made."""

    def __init__(self, config: SparkConfig, jobs: int | None, *, has_spark: bool = True) -> None:
        """Begin to get ready; without Spark only processes of our own copy."""
        self._config = config
        self._jobs = jobs
        self._has_spark = has_spark
        cores = local_cores(config.master) if has_spark else 1
        self._helpers = [Helper() for _ in range(jobs or cores)] if cores is not None else []
        self._spark = SessionInBackground(config, _APP_NAME, jobs) if cores is None else None

    @property
    def jobs(self) -> int:
        """How many copy side by side; without ``--jobs`` as many as Spark has cores."""
        if self._helpers:
            return len(self._helpers)
        return self._spark.jobs if self._spark is not None else 1

    def begin(self, task: CopyTask, parts: Sequence[Part]) -> CopyJob:
        """Start to copy the parts."""
        is_big = sum(part.size_bytes for part in parts) >= _SPARK_FROM_BYTES
        if self._spark is None and self._has_spark and is_big:
            self._spark = SessionInBackground(self._config, _APP_NAME, self.jobs)
        lanes = min(self.jobs, len(parts) or 1)
        return CopyJob(task, self._helpers[:lanes] or [None] * lanes, self._spark)

    def stop(self) -> None:
        """Send everybody home, whatever they do."""
        for helper in self._helpers:
            helper.close()
        if self._spark is not None:
            self._spark.stop()


class CopyJob:
    """A copy at work."""

    def __init__(
        self, task: CopyTask, helpers: Sequence[Helper | None], spark: SessionInBackground | None
    ) -> None:
        """Start a lane for each helper, or for each None a task of Spark at once."""
        self._task = task
        self._spark = spark
        self._errors: list[PgreplError] = []
        self._crash: Exception | None = None
        self._is_over = threading.Event()
        self._lanes = [
            threading.Thread(target=self._run_lane, args=(helper,), daemon=True)
            for helper in helpers
        ]
        for lane in self._lanes:
            lane.start()
        threading.Thread(target=self._wait_for_lanes, daemon=True).start()
        at_work = [helper for helper in helpers if helper is not None]
        if spark is not None and at_work:
            threading.Thread(target=self._hand_over, args=(spark, at_work), daemon=True).start()

    def _run_lane(self, helper: Helper | None) -> None:
        try:
            report = helper.run(self._task) if helper is not None else TaskReport([], is_over=False)
            self._errors += report.errors
            if not report.is_over and self._spark is not None:
                self._errors += self._run_on_spark(self._spark).errors
        except Exception as exc:  # noqa: BLE001  raised again in wait()
            self._crash = exc

    def _run_on_spark(self, spark: SessionInBackground) -> TaskReport:
        task = self._task
        one = spark.session().sparkContext.parallelize([None], 1)
        (report,) = one.map(lambda _: run_task(task)).collect()
        return report

    def _wait_for_lanes(self) -> None:
        for lane in self._lanes:
            lane.join()
        self._is_over.set()

    def _hand_over(self, spark: SessionInBackground, helpers: Sequence[Helper]) -> None:
        try:
            spark.session()
        except ConfigError as exc:
            logger.warning("%s; processes of our own copy on", exc.message)
            return
        logger.info("Spark takes over")
        for helper in helpers:
            helper.finish_soon()

    def wait(self, poll: Callable[[], None], interval_s: float) -> None:
        """Wait for the end, calling ``poll`` in between and once after it.

        Raises
        ------
        PgreplError
            the first that a task met.

        """
        try:
            while not self._is_over.wait(interval_s):
                poll()
            # Also after an error: what is whole stays. An error that follows it says less.
            with suppress(PgreplError) if self._errors else nullcontext():
                poll()
        except BaseException:
            if self._spark is not None:
                with suppress(Exception):
                    self._spark.session().sparkContext.cancelAllJobs()
            raise
        if self._errors:
            raise _first(self._errors)
        if isinstance(self._crash, PgreplError):
            raise self._crash
        if self._crash is not None:
            raise PgreplError(
                "a copying task ended without a result",
                hint="Look into Spark's log for why; then run the same command again: it goes on.",
            ) from self._crash


def _first(errors: list[PgreplError]) -> PgreplError:
    first = errors[0]
    if len(errors) == 1:
        return first
    return type(first)(f"{first.message}, and {len(errors) - 1} more errors", hint=first.hint)
