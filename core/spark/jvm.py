"""The JVM of a session, in our own hands from its first moment, so that it can be ended at any.

PySpark starts it by the same script and with the same settings, but tells nobody which process it
is before it is up. Here that process leads a group of its own: Spark's script, the JVM that it asks
for a command line, and the one that it becomes.
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from pgrepl.spark.jvm_output import JvmOutput

__all__ = ["Jvm", "JvmEndedError", "find_spark_home"]

_PATIENCE_S = 5.0
_LOOK_S = 0.02

_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
_SHELL = "pyspark-shell"
_PORT = "PYSPARK_GATEWAY_PORT"
_TOKEN = "PYSPARK_GATEWAY_SECRET"  # noqa: S105  the name of a variable


class JvmEndedError(Exception):
    """The JVM ended before it could be reached; it has said why, and the log has it."""


class Jvm:
    """A JVM that waits for PySpark."""

    def __init__(
        self,
        settings: Mapping[str, str],
        secret: Mapping[str, str],
        java_options: str,
        *,
        is_patient: bool,
    ) -> None:
        """Start it; secret settings reach it by a file of this user alone.

        A patient one gets as long as it takes to end.
        """
        self._is_patient = is_patient
        # What is on the command line is seen by all users.
        self._folder = tempfile.TemporaryDirectory(prefix="pgrepl-", ignore_cleanup_errors=True)
        self._address = Path(self._folder.name) / "address"
        command = [str(find_spark_home() / "bin" / "spark-submit")]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        given = os.environ.get(_SUBMIT_ARGS, _SHELL)
        options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {java_options}".strip()
        self._process = subprocess.Popen(
            [*command, *self._secrets(secret), *shlex.split(given)],
            # Its end, whatever ended us, ends the JVM.
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={
                **os.environ,
                "SPARK_CONNECT_MODE": "0",
                "SPARK_SUBMIT_OPTS": options,
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address),
            },
            # Ctrl-C is for the program, which ends the session.
            start_new_session=True,
            # Spark gives the folders of its blocks the permissions that the process would give.
            umask=0o077,
        )
        self._output = None if self._process.stderr is None else JvmOutput(self._process.stderr)

    def _secrets(self, secret: Mapping[str, str]) -> Sequence[str]:
        if not secret:
            return ()
        path = Path(self._folder.name) / "secret.properties"
        lines = [f"{_escaped(key)}={_escaped(value)}\n" for key, value in secret.items()]
        path.write_text("".join(lines), encoding="utf-8")
        # The defaults of the machine's own Spark stay in force.
        return "--load-spark-defaults", "--properties-file", str(path)

    def connect(self) -> Any:  # noqa: ANN401  a gateway of py4j, which has no types
        """Wait until it can be reached, and return PySpark's gateway to it.

        Raises
        ------
        JvmEndedError
            when it ended instead.

        """
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415  see session

        while not self._address.exists():
            if self._process.poll() is not None:
                self._folder.cleanup()
                self._hear_out()
                raise JvmEndedError(f"the JVM ended with exit code {self._process.returncode}")
            time.sleep(_LOOK_S)
        content = self._address.read_bytes()
        port, length = struct.unpack_from(">ii", content)
        self._folder.cleanup()
        _quiet_py4j()
        with _variables({_PORT: str(port), _TOKEN: content[8 : 8 + length].decode()}):
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        gateway.proc = self._process
        return gateway

    def end(self) -> None:
        """Let it end by itself: the session is over."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(None if self._is_patient else _PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._hear_out()

    def _hear_out(self) -> None:
        if self._output is not None:
            self._output.wait()

    def kill(self) -> None:
        """End it, whatever it does; its temporary files go with it."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        # Whatever Spark's script had started and did not wait for.
        self._signal(signal.SIGKILL)
        self._hear_out()
        self._folder.cleanup()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def find_spark_home() -> Path:
    """Return where Spark is."""
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415  see session

    return Path(_find_spark_home())


@cache
def _quiet_py4j() -> None:
    """Keep py4j from writing what it raises to the root logger, which has no name."""
    logging.getLogger().addFilter(lambda record: "py4j" not in Path(record.pathname).parts)


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for a moment: PySpark reads where the JVM is there."""
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            del os.environ[name]


def _escaped(text: str) -> str:
    """Write a text for a Java properties file."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    escaped = "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in plain)
    return "".join(f"\\{c}" if c in " :=#!" else c for c in escaped)
