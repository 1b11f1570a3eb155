"""A process of our own that copies, at work seconds before Spark could be.

``Helper`` is its owner's side, ``main`` is the process itself. It gets its task by
standard input, where conninfos are seen by nobody, and answers on standard output. One more byte
tells it to end after the part in hand; the end of input, whatever ended the owner, ends it at once.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, cast

from pgrepl.basebackup.worker import CopyTask, TaskReport, run_task
from pgrepl.errors import PgreplError

__all__ = ["Helper", "main"]

_PATIENCE_S = 5.0


class Helper:
    """A process that waits for a task."""

    def __init__(self) -> None:
        """Start it, so that it is warm when there is something to do."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the owner, who tells everybody
        )
        # Popen leaves them out only when it was not asked for them.
        self._input = cast("IO[bytes]", self._process.stdin)
        self._output = cast("IO[bytes]", self._process.stdout)
        self._lock = threading.Lock()
        self._is_begun = False
        self._is_unwanted = False

    def run(self, task: CopyTask) -> TaskReport:
        """Let it copy parts until none is left or ``finish_soon`` is called.

        Raises
        ------
        PgreplError
            when it died.

        """
        with self._lock:
            if self._is_unwanted:
                return TaskReport([], is_over=False)
            self._is_begun = True
            with suppress(OSError):
                pickle.dump(task, self._input)
                self._input.flush()
        with self._output as output:
            answer = output.read()
        if not answer:
            raise PgreplError(
                "a copying task ended without a result, its process with exit code"
                f" {self._process.wait()}",
                hint="Run the same command again: it goes on.",
            )
        report: TaskReport = pickle.loads(answer)  # noqa: S301  our own process wrote it
        return report

    def finish_soon(self) -> None:
        """Let it end after the part in hand."""
        with self._lock:
            self._is_unwanted = True
            if self._is_begun:
                with suppress(OSError, ValueError):
                    self._input.write(b".")
                    self._input.flush()

    def close(self) -> None:
        """End it, whatever it does."""
        with self._lock:
            self._is_unwanted = True
            with suppress(OSError):
                self._input.close()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()


def main() -> None:
    """Copy what standard input says."""
    try:
        task: CopyTask = pickle.load(sys.stdin.buffer)  # noqa: S301  our owner wrote it
    except EOFError:
        return
    is_stopping = threading.Event()

    def listen() -> None:
        if not sys.stdin.buffer.read(1):
            os._exit(1)
        is_stopping.set()
        sys.stdin.buffer.read(1)
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    report = run_task(task, is_stopping.is_set)
    sys.stdout.buffer.write(pickle.dumps(report))
    sys.stdout.buffer.flush()
    # The listener sits in a read, and would be waited for.
    os._exit(0)
