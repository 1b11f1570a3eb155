"""The Spark job of a batch: one task per shard that has something to do."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pgrepl.config.model import SparkConfig
from pgrepl.errors import ConfigError, PgreplError, Retry
from pgrepl.replayer.shard.task import ShardResult, ShardTask, run_shard
from pgrepl.spark.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DAEMON", "JobFailed", "ShardJobs"]

logger = logging.getLogger(__name__)

_APP_NAME = "pgrepl-replay"

#: The module from which Spark's workers are forked.
DAEMON = "pgrepl.replayer.spark_daemon"


class JobFailed(PgreplError):
    """Spark lost tasks: an executor or a worker died. What was committed stays, the rest waits."""

    retry = Retry.TIMED


class ShardJobs:
    """Runs tasks on Spark; the session starts with the first of them."""

    def __init__(self, config: SparkConfig) -> None:
        """Prepare; Spark does not start yet."""
        self._config = config
        self._session: SparkSession | None = None

    def run(self, tasks: Sequence[ShardTask]) -> Sequence[ShardResult | PgreplError]:
        """Run tasks side by side and return what each of them says, in order.

        Raises
        ------
        JobFailed
            when some of them ended without a word.

        """
        context: Any = self._start().sparkContext
        context.setJobDescription(_describe(tasks))
        # What Spark shows as the name of the stage.
        context.setLocalProperty("callSite.short", _describe(tasks))
        numbered = context.parallelize(list(tasks), len(tasks)).setName(_APP_NAME)
        try:
            results: Sequence[ShardResult | PgreplError] = numbered.map(run_shard).collect()
        except Exception as exc:
            # Whether Spark itself has ended will be seen when it is needed next.
            self.stop()
            raise JobFailed(
                "Spark lost a replay task",
                hint="An executor or its Python worker ended; Spark's log says why. What it had"
                " not committed is applied again.",
            ) from exc
        return results

    def stop(self) -> None:
        """End the session, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            # The JVM may have ended before us.
            with suppress(Exception):
                session.stop()

    def _start(self) -> SparkSession:
        if self._session is None:
            logger.info("starting Spark", extra={"master": self._config.shown_master})
            try:
                self._session = build_session(self._config, _APP_NAME, daemon=DAEMON)
            except Exception as exc:
                raise ConfigError(
                    f"Spark does not start on {self._config.shown_master}",
                    hint="Run pgrepl doctor: it tries Spark and says what is missing.",
                ) from exc
        return self._session


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
