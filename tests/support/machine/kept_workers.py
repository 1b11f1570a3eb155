"""Worker processes that outlive the copy that started them: each takes 0.3 s of CPU to start."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pgrepl.parallel.process import WorkerProcess

_idle: defaultdict[Callable[[Any], Any], list[WorkerProcess[Any, Any]]] = defaultdict(list)


class KeptWorker:
    """Stands for a process that ran the same function before, or for a new one."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        # A process knows the place where it is to die from its start.
        self._is_kept = "PGREPL_FAILPOINT" not in os.environ
        self._process = (
            _idle[function].pop()
            if self._is_kept and _idle[function]
            else WorkerProcess[Any, Any](function)
        )
        self._is_busy = False

    def call(self, argument: Any) -> Any:
        self._is_busy = True
        result = self._process.call(argument)
        # One that died, or was told to end, is not used again.
        self._is_busy = isinstance(result, Exception)
        return result

    def close(self) -> None:
        if self._is_kept and not self._is_busy:
            _idle[self._function].append(self._process)
        else:
            self._process.close()


@contextmanager
def keep_workers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pgrepl.parallel.workers.WorkerProcess", KeptWorker)
        yield
    for process in (process for kept in _idle.values() for process in kept):
        process.close()
    _idle.clear()
