"""Who does work that can be done side by side: basebackup, resync and verify use this.

On a local master processes of our own do it: they are at work seconds before Spark could be. On a
cluster tasks of Spark do it, from the first argument on. Nothing takes over in the middle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from pgrepl.background import BackgroundCall
from pgrepl.config.model import SparkConfig
from pgrepl.errors import PgreplError
from pgrepl.parallel.process import WorkerProcess
from pgrepl.spark.background import SessionInBackground
from pgrepl.spark.session import local_cores

__all__ = ["Workers", "start_workers"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def start_workers(
    function: Callable[[Argument], Result],
    config: SparkConfig,
    app_name: str,
    jobs: int | None,
    *,
    is_local: bool = False,
) -> Workers[Argument, Result]:
    """Get workers ready, which takes seconds: ask for them before there is something to do.

    ``is_local`` keeps the work on this machine whatever the master is.
    """
    cores = 1 if is_local else local_cores(config.master)
    if cores is None:
        return _SparkWorkers(function, config, app_name, jobs)
    return _LocalWorkers(function, jobs or cores)


class Workers(ABC, Generic[Argument, Result]):
    """Run one function over many arguments."""

    @property
    @abstractmethod
    def jobs(self) -> int:
        """How many run at once."""

    @abstractmethod
    def run(self, arguments: Sequence[Argument]) -> list[Result | PgreplError]:
        """Return the results in the order of the arguments; an error where a worker died."""

    @abstractmethod
    def stop(self) -> None:
        """Stop all workers, whatever they do."""


class _LocalWorkers(Workers[Argument, Result]):
    def __init__(self, function: Callable[[Argument], Result], jobs: int) -> None:
        self._processes = [WorkerProcess(function) for _ in range(jobs)]

    @property
    def jobs(self) -> int:
        return len(self._processes)

    def run(self, arguments: Sequence[Argument]) -> list[Result | PgreplError]:
        results: dict[int, Result | PgreplError] = {}
        indexes = iter(range(len(arguments)))  # next() of it is atomic

        def work(process: WorkerProcess[Argument, Result]) -> None:
            for index in indexes:
                results[index] = process.call(arguments[index])

        for call in [BackgroundCall(partial(work, process)) for process in self._processes]:
            call.result()
        return [results[index] for index in range(len(arguments))]

    def stop(self) -> None:
        for process in self._processes:
            process.close()


class _SparkWorkers(Workers[Argument, Result]):
    def __init__(
        self,
        function: Callable[[Argument], Result],
        config: SparkConfig,
        app_name: str,
        jobs: int | None,
    ) -> None:
        self._function = function
        self._spark = SessionInBackground(config, app_name, jobs)

    @property
    def jobs(self) -> int:
        return self._spark.jobs

    def run(self, arguments: Sequence[Argument]) -> list[Result | PgreplError]:
        context: Any = self._spark.session().sparkContext
        try:
            results = context.parallelize(arguments, len(arguments)).map(self._function).collect()
        except KeyboardInterrupt:
            self._cancel()
            raise
        except Exception as exc:
            raise PgreplError(
                "a task of Spark ended without a result",
                hint="Look into Spark's log for why; then run the same command again.",
            ) from exc
        return list(results)

    def stop(self) -> None:
        self._cancel()
        self._spark.stop()

    def _cancel(self) -> None:
        with suppress(Exception):
            self._spark.session().sparkContext.cancelAllJobs()
