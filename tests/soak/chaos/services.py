"""Programs that are started again whenever they end, as systemd does."""

from __future__ import annotations

import collections
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.soak.chaos.clock import Clock
from tests.support.machine.listening import family
from tests.support.program import COMMAND

_PAUSE_S = 0.3
#: The exit code of a bug, and how much of the log tells of it.
_BUG = 1
_TOLD_LINES = 60


class Service:
    """One program of pgrepl; ``ends`` counts how it ended by itself."""

    def __init__(
        self, folder: Path, config: Path, *arguments: str, has_clock: bool = False
    ) -> None:
        self.name = " ".join(arguments[:2])
        self.log = folder / f"{'-'.join(arguments[:2])}.log"
        #: A clock of its own that can jump.
        self.clock = Clock(folder / f"{'-'.join(arguments[:2])}.clock") if has_clock else None
        self.ends: collections.Counter[int] = collections.Counter()
        #: What it said before it ended as a bug does.
        self.wrong: list[str] = []
        self._command = [*COMMAND, *arguments, "--config", str(config)]
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._wanted = threading.Event()
        self._wanted.set()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """Kill it, and let it be started again."""
        self._signal(signal.SIGKILL)

    def kill_a_child(self, dice: random.Random) -> bool:
        """Kill a process that it started: the JVM, a worker; whether there is one."""
        with self._lock:
            if self._process is None:
                return False
            found = family(self._process.pid)[1:]
        if not found:
            return False
        with suppress(ProcessLookupError):
            os.kill(dice.choice(found), signal.SIGKILL)
        return True

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Keep it down until the block ends."""
        self._wanted.clear()
        self._end()
        try:
            yield
        finally:
            self._wanted.set()

    def close(self) -> None:
        self._stop.set()
        self._wanted.set()
        self._end()
        self._thread.join()

    def _end(self) -> None:
        self._signal(signal.SIGTERM)
        with self._lock:
            process = self._process
        if process is not None:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                # What it waits for may be frozen by another fault.
                process.kill()
                process.wait()

    def _signal(self, number: int) -> None:
        with self._lock:
            if self._process is not None:
                self._process.send_signal(number)

    def _keep(self) -> None:
        while not self._stop.is_set():
            self._wanted.wait()
            if self._stop.is_set():
                return
            with self._lock, self.log.open("ab") as sink:
                # Whoever has just stopped it found no process.
                if not self._wanted.is_set():
                    continue
                self._process = process = subprocess.Popen(
                    self._command,
                    stdout=sink,
                    stderr=sink,
                    env={**os.environ, **(self.clock.environment if self.clock else {})},
                )
            code = process.wait()
            with self._lock:
                self._process = None
            if code != -signal.SIGKILL:
                self.ends[code] += 1
            if code == _BUG:
                said = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
                self.wrong.append(f"{self.name} ended with {code}: {said[-_TOLD_LINES:]}")
            self._stop.wait(_PAUSE_S)
