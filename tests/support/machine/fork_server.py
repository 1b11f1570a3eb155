"""Starts programs that have imported everything already: half of what a short one costs is that.

A process imports pgrepl once and then forks for each run. The program that comes of it has its own
process, arguments and environment like any other; what it imports, and when, is not tested here.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

#: Has a program copy tables in chunks of so few rows that a small table has many.
CHUNK_ROWS = "PGREPL_TEST_CHUNK_ROWS"

_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")


class ForkedProcess:
    """What a test does with a program that runs, as of ``subprocess.Popen``."""

    def __init__(self, pid: int, server: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        if self.returncode is None and self._has_ended(0):
            return self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not self._has_ended(timeout):
                raise subprocess.TimeoutExpired("pgrepl", timeout or 0.0)
            with self._server:
                (self.returncode,) = _STATUS.unpack(_receive(self._server, _STATUS.size))
        return self.returncode

    def _has_ended(self, timeout: float | None) -> bool:
        # Not by select: it knows no descriptors above 1023.
        poll = select.poll()
        poll.register(self._server, select.POLLIN)
        return bool(poll.poll(None if timeout is None else timeout * 1000))

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The client's side; it ends with the process that made it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._socket = ours
        self._lock = threading.Lock()
        atexit.register(self.close)

    def start(
        self, arguments: Sequence[str], env: Mapping[str, str], out: IO[bytes], err: IO[bytes]
    ) -> ForkedProcess:
        """Start the program."""
        ours, theirs = socket.socketpair()
        request = json.dumps(
            {"arguments": list(arguments), "env": dict(env), "cwd": str(Path.cwd())}
        )
        descriptors = [theirs.fileno(), 0, out.fileno(), err.fileno()]
        with theirs, self._lock:
            socket.send_fds(self._socket, [_LENGTH.pack(len(request))], descriptors)
            self._socket.sendall(request.encode())
        (pid,) = _STATUS.unpack(_receive(ours, _STATUS.size))
        return ForkedProcess(pid, ours)

    def run(
        self, arguments: Sequence[str], env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run the program to its end."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self.start(arguments, env, out, err)
            try:
                code = process.wait()
            except BaseException:
                process.kill()
                raise
            texts = [_text(file) for file in (out, err)]
        return subprocess.CompletedProcess(list(arguments), code, *texts)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _receive(of: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = of.recv(size - len(data))
        if not more:
            raise EOFError("the other side has ended")
        data += more
    return data


def _import_all() -> None:
    """Import all of pgrepl but what runs when it is imported."""
    package = importlib.import_module("pgrepl")
    for module in pkgutil.walk_packages(package.__path__, "pgrepl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    # What typer imports when a command runs; other versions of it have no such module.
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("typer._adapters")
    _build_commands()


def _build_commands() -> None:
    """Have typer make its commands of our functions once, and not for each run."""
    commands = importlib.import_module("typer.main")
    built = commands.get_command(importlib.import_module("pgrepl.cli.main").app)
    vars(commands)["get_command"] = lambda _: built


def _serve(requests: socket.socket) -> list[str] | None:
    """Fork for each request; in the fork return its arguments, and None at the end of all."""
    waker, woken = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _report_ended(running)
        if requests not in ready:
            continue
        head, descriptors, _, _ = socket.recv_fds(requests, _LENGTH.size, 4)
        if not head:
            return None
        (length,) = _LENGTH.unpack(head)
        request = json.loads(_receive(requests, length))
        client = socket.socket(fileno=descriptors[0])
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in (client, requests, waker, woken, *running.values()):
                other.close()
            _become(request, descriptors[1:])
            return list(request["arguments"])
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        running[pid] = client
        client.sendall(_STATUS.pack(pid))


def _report_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as client, contextlib.suppress(OSError):
            client.sendall(_STATUS.pack(os.waitstatus_to_exitcode(status)))


def _become(request, descriptors: Sequence[int]) -> None:
    """Take over the environment, the folder and the files of a run."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    tempfile.tempdir = None
    # It looks into the environment when it is imported.
    importlib.reload(importlib.import_module("pgrepl.failpoint"))
    if CHUNK_ROWS in os.environ:
        limit = int(os.environ[CHUNK_ROWS])
        chunks = vars(importlib.import_module("pgrepl.resync.chunked.run"))
        chunks.update(FIRST_LIMIT=limit, next_limit=lambda *_: limit)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv = request["arguments"]


def _run_to_the_end(main: Callable[[], None]) -> None:
    """Run the program and end the process, without taking everything apart that was imported.

    Python would write to the memory of every object on its way out, which a fork then has to copy:
    most of what a short program costs. Threads, exit handlers and files end as ever.
    """
    try:
        main()
    except SystemExit as exc:
        if exc.code is not None and not isinstance(exc.code, int):
            raise
        code = exc.code or 0
    else:
        code = 0
    threading._shutdown()  # type: ignore[attr-defined]  # as Python does first
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


@functools.cache
def fork_server() -> ForkServer:
    """Return the one of this process."""
    return ForkServer()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as own:
        _import_all()
        gc.freeze()
        found = _serve(own)
    if found is not None:
        from pgrepl.cli.__main__ import main

        _run_to_the_end(main)
