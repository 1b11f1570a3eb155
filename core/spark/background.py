"""A Spark session that starts while other work is done: it takes 3 to 9 seconds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pgrepl.background import BackgroundCall
from pgrepl.config.model import SparkConfig
from pgrepl.errors import ConfigError
from pgrepl.spark.session import SessionStart, local_cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SessionInBackground"]

#: How long a start that is broken off may take to notice.
_PATIENCE_S = 5.0


class SessionInBackground:
    """A Spark session on its way."""

    def __init__(
        self,
        config: SparkConfig,
        app_name: str,
        jobs: int | None = None,
        *,
        daemon: str | None = None,
        warm_up: Callable[[SparkSession], object] | None = None,
    ) -> None:
        """Begin to start it; it is there when ``warm_up`` has used it, whatever came of that."""
        if jobs is not None and local_cores(config.master) is not None:
            config = replace(config, master=f"local[{jobs}]")
        self._config = config
        self._jobs = jobs
        self._start = SessionStart(config, app_name, daemon=daemon)
        self._warm_up = warm_up
        self._starting = BackgroundCall(self._run)

    def _run(self) -> SparkSession:
        session = self._start.run()
        if self._warm_up is not None:
            # What is wrong is seen by whoever uses it next.
            with suppress(Exception):
                self._warm_up(session)
        return session

    @property
    def is_starting(self) -> bool:
        """Whether it is neither there nor known that it never will be."""
        return not self._starting.wait(0)

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
        self._start.end()
        self._starting.wait(_PATIENCE_S)
