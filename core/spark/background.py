"""A Spark session that starts while other work is done: it takes 5 to 9 seconds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.background import BackgroundCall
from pgrepl.config.model import SparkConfig
from pgrepl.errors import ConfigError
from pgrepl.spark.session import build_session, local_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SessionInBackground"]


class SessionInBackground:
    """A Spark session on its way."""

    def __init__(self, config: SparkConfig, app_name: str, jobs: int | None = None) -> None:
        """Begin to start it."""
        if jobs is not None and local_cores(config.master) is not None:
            config = replace(config, master=f"local[{jobs}]")
        self._config = config
        self._app_name = app_name
        self._jobs = jobs
        self._starting = BackgroundCall(self._start)

    def _start(self) -> SparkSession:
        return build_session(self._config, self._app_name)

    def session(self) -> SparkSession:
        """Wait until the session is there."""
        try:
            return self._starting.result()
        except Exception as exc:
            raise ConfigError(
                f"Spark does not start on {self._config.shown_master}",
                hint="Run pgrepl doctor: it tries Spark and says what is missing.",
            ) from exc

    @property
    def jobs(self) -> int:
        """How many tasks run side by side; without ``--jobs`` as many as Spark has cores."""
        return self._jobs or int(self.session().sparkContext.defaultParallelism)

    def stop(self) -> None:
        """End the session, whatever state it is in."""
        # It may not have started, and after Ctrl-C the JVM ends before us.
        with suppress(Exception):
            self._starting.result().stop()
