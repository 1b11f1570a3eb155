"""The only place that builds a Spark session. Import it only where Spark is used.

The JVM options keep a small local job small: measured over ten small jobs, the client compiler and
the serial collector took 1.3 s of CPU where the defaults took 4.8 s.

A session on a local master is closed to other users of the machine: Spark's ports want a secret,
which Spark makes for the session and keeps in the JVM's memory; sockets between the JVM and Python
lie in a folder of this user alone.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING

from pgrepl.config.model import SparkConfig
from pgrepl.config.secrets import SECRET_PATTERN
from pgrepl.spark.class_archive import ClassArchive, find_archive
from pgrepl.spark.jvm import Jvm, JvmEndedError, find_spark_home
from pgrepl.spark.package_archive import archive_path
from pgrepl.spark.private_files import socket_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SessionStart", "build_session", "local_cores"]

_PYTHON = "spark.pyspark.python"
_DAEMON = "spark.python.daemon.module"

# "local", "local[4]", "local[*]", and with a number of failures after a comma.
_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*\d+\s*)?\])?")

_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Whoever can see the UI, should it be switched on, can do no more than that.
    "spark.ui.killEnabled": "false",
    # What Spark strikes out of its UI and its log, by a setting's name or in its value.
    "spark.redaction.regex": f"(?i){SECRET_PATTERN}",
    # An executor that repeats a task on its own would only meet the fence of the first one.
    "spark.speculation": "false",
}
# Else all users of the machine can fetch blocks from the driver, and what they hold leads on to a
# server that runs what it is sent.
_CLOSED = {
    "spark.authenticate": "true",
    "spark.python.unix.domain.socket.enabled": "true",
}
_SOCKETS = "spark.python.unix.domain.socket.dir"


class SessionStart:
    """The start of a session, which another thread may break off."""

    def __init__(
        self,
        config: SparkConfig,
        app_name: str,
        *,
        daemon: str | None = None,
        recording: ClassArchive | None = None,
    ) -> None:
        """Prepare; ``daemon`` is a module that stands in for Spark's own on a local master.

        The executors of a cluster get our package only with the first task. ``recording`` is where
        the JVM writes down its classes when it ends.
        """
        self._recording = recording
        self._config = config
        self._app_name = app_name
        self._daemon = daemon
        self._is_over = False
        self._jvm: Jvm | None = None
        self._session: SparkSession | None = None
        self._lock = threading.Lock()

    def run(self) -> SparkSession:
        """Start the session, or return the one that runs already."""
        config = self._config
        is_local = local_cores(config.master) is not None
        _set_environment(config, is_local=is_local)

        from pyspark import SparkContext  # noqa: PLC0415  costs too much for any other command
        from pyspark.sql import SparkSession  # noqa: PLC0415

        settings = self._settings(is_local=is_local)
        if SparkContext._gateway is None:  # noqa: SLF001  PySpark's own name for one that is given
            gateway = self._start_jvm(settings).connect()
            SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
        builder = SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        if not is_local:
            _ship(session)
        with self._lock:
            self._check()
            self._session = session
        return session

    def end(self) -> None:
        """End the session, or its start, whatever state it is in."""
        with self._lock:
            self._is_over = True
            jvm, session = self._jvm, self._session
        if session is not None:
            # The JVM may have ended before us.
            with suppress(Exception):
                session.stop()
        if jvm is not None:
            _forget_jvm()
            if session is None:
                jvm.kill()
            else:
                jvm.end()

    def kill(self) -> None:
        """End it at once, whatever state it is in."""
        with self._lock:
            self._is_over = True
            jvm = self._jvm
        if jvm is not None:
            _forget_jvm()
            jvm.kill()

    def _check(self) -> None:
        if self._is_over:
            raise JvmEndedError("Spark is not wanted any more")

    def _start_jvm(self, settings: Mapping[str, str]) -> Jvm:
        with self._lock:
            self._check()
            self._jvm = Jvm(
                settings,
                self._config.secret_conf(),
                self._java_options(),
                is_patient=self._recording is not None,
            )
        return self._jvm

    def _java_options(self) -> str:
        if self._recording is not None:
            return self._recording.recording_options
        archive = find_archive(find_spark_home())
        return "" if archive is None else archive.java_options

    def _settings(self, *, is_local: bool) -> dict[str, str]:
        """Return the settings that are no secrets; ``[spark] conf`` overrides every default."""
        config = self._config
        log4j = resources.files("pgrepl").joinpath("log4j2.properties")
        java_options = f"{_JAVA_OPTIONS} -Dlog4j2.configurationFile={log4j}"
        settings = {
            "spark.master": config.master,
            "spark.app.name": self._app_name,
            "spark.driver.extraJavaOptions": java_options,
            **_DEFAULTS,
        }
        if is_local:
            settings |= {**_CLOSED, _SOCKETS: str(socket_folder())}
            if self._daemon is not None:
                settings[_DAEMON] = self._daemon
        secret = config.secret_conf()
        return settings | {k: v for k, v in config.conf.items() if k not in secret}


def build_session(config: SparkConfig, app_name: str, *, daemon: str | None = None) -> SparkSession:
    """Start the session, or return the one that runs already."""
    return SessionStart(config, app_name, daemon=daemon).run()


def _forget_jvm() -> None:
    """Let PySpark start another JVM the next time, as it does when it is new."""
    from pyspark import SparkContext  # noqa: PLC0415  see above

    # A session that could not be stopped is of no use either.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001


def _set_environment(config: SparkConfig, *, is_local: bool) -> None:
    """Say which Python the workers run; Spark reads it there and nowhere else.

    Without this they run whatever "python3" is first on PATH, without what we depend on. Spark's
    own setting holds only for programs that spark-submit starts.
    """
    if _PYTHON in config.conf:
        os.environ["PYSPARK_PYTHON"] = config.conf[_PYTHON]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        # A host name that does not resolve would keep a purely local session from starting.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Spark starts Python with "-m", which would import from where this program was started: a
        # folder like /tmp has whatever others put there.
        os.environ["PYTHONSAFEPATH"] = "1"


def local_cores(master: str) -> int | None:
    """Return how many tasks run at once on a local master; None: it is a cluster."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    cores = found[1] or "1"
    return os.cpu_count() or 1 if cores == "*" else int(cores)


def _ship(session: SparkSession) -> None:
    """Give the executors our own package, once a session."""
    archive = archive_path()
    context = session.sparkContext
    if not any(name.endswith(f"/{archive.name}") for name in context.listFiles):
        context.addPyFile(str(archive))
