"""A process of our own that runs one function again and again, started before there is work.

``WorkerProcess`` is its owner's side, ``main`` is the process itself. It gets its arguments by
standard input, where the conninfos in them are seen by nobody, and answers on standard output. The
end of input, whatever ended the owner, ends it at once.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any, Generic, TypeVar, cast

from pgrepl.errors import PgreplError

__all__ = ["WorkerProcess", "main"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")

_PATIENCE_S = 5.0


class WorkerProcess(Generic[Argument, Result]):
    """A process that waits for arguments of a function, which is one at the top of a module."""

    def __init__(self, function: Callable[[Argument], Result]) -> None:
        """Start it; it imports the function's module at once."""
        command = (
            f"from {__name__} import main; main({function.__module__!r}, {function.__name__!r})"
        )
        self._process = subprocess.Popen(
            # Not from where the owner stands, which may be a folder that others write into.
            [sys.executable, "-P", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the owner, who stops all workers
        )
        # Popen leaves them unset only when it was not asked for them.
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)

    def call(self, argument: Argument) -> Result | PgreplError:
        """Return what the function returns, or an error when the process died."""
        try:
            pickle.dump(argument, self._input)
            self._input.flush()
            return cast("Result", pickle.load(self._output))  # noqa: S301  our own process wrote it
        except (OSError, ValueError, EOFError, pickle.UnpicklingError):
            return PgreplError(
                f"a worker process ended without a result, with exit code {self._process.wait()}",
                hint="Run the same command again. Exit code -9 is mostly a lack of memory.",
            )

    def close(self) -> None:
        """End it, whatever it does."""
        with suppress(OSError):
            self._input.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()


def main(module: str, name: str) -> None:
    """Run the function with what standard input says, until that ends."""
    function = getattr(importlib.import_module(module), name)
    arguments: SimpleQueue[Any] = SimpleQueue()

    def listen() -> None:
        while True:
            try:
                arguments.put(pickle.load(sys.stdin.buffer))  # noqa: S301  our owner wrote it
            except BaseException:  # noqa: BLE001  whatever it is, there is no owner to tell
                os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        pickle.dump(function(arguments.get()), sys.stdout.buffer)
        sys.stdout.buffer.flush()
