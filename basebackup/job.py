"""The Spark job that copies: as many tasks as jobs, each taking parts until none is left.

Tasks pull parts instead of being one part each, so that a task connects once, imports the snapshot
once, and is never idle while a part is left; and ``--jobs`` holds on every kind of cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pgrepl.basebackup.worker import CopyTask, run_task
from pgrepl.config import SparkConfig
from pgrepl.errors import ConfigError, PgreplError
from pgrepl.spark import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CopyJob", "SessionInBackground"]

_APP_NAME = "pgrepl-basebackup"
_LOCAL = "local"


class SessionInBackground:
    """A Spark session that starts while the schema is made: it takes 5 to 9 seconds."""

    def __init__(self, config: SparkConfig, jobs: int | None) -> None:
        """Begin to start it."""
        if jobs is not None and config.master.startswith(_LOCAL):
            config = replace(config, master=f"{_LOCAL}[{jobs}]")
        self._config = config
        self._jobs = jobs
        self._session: SparkSession | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._start, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        try:
            self._session = build_session(self._config, _APP_NAME)
        except Exception as exc:  # noqa: BLE001  raised again where somebody waits for it
            self._error = exc

    def session(self) -> SparkSession:
        """Wait until the session is there."""
        self._thread.join()
        if self._session is None:
            raise ConfigError(
                f"Spark does not start on {self._config.master}",
                hint="Run pgrepl doctor: it tries Spark and says what is missing.",
            ) from self._error
        return self._session

    @property
    def jobs(self) -> int:
        """How many tasks run side by side; without ``--jobs`` as many as Spark has cores."""
        return self._jobs or int(self.session().sparkContext.defaultParallelism)

    def stop(self) -> None:
        """End the session, whatever state it is in."""
        self._thread.join()
        if self._session is not None:
            # After Ctrl-C the JVM is gone before us.
            with suppress(Exception):
                self._session.stop()


class CopyJob:
    """A running job."""

    def __init__(self, session: SparkSession, task: CopyTask, jobs: int) -> None:
        """Start it."""
        self._context: Any = session.sparkContext
        self._task = task
        self._jobs = jobs
        self._errors: list[PgreplError] = []
        self._crash: Exception | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            task = self._task
            tasks = self._context.parallelize(range(self._jobs), self._jobs)
            for errors in tasks.map(lambda _: run_task(task)).collect():
                self._errors += errors
        except Exception as exc:  # noqa: BLE001  raised again in wait()
            self._crash = exc
        finally:
            self._is_over.set()

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
            poll()
        except BaseException:
            with suppress(Exception):
                self._context.cancelAllJobs()
            raise
        if self._errors:
            raise _first(self._errors)
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
