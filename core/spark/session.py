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
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING

from pgrepl.config.model import SparkConfig
from pgrepl.config.secrets import SECRET_PATTERN
from pgrepl.spark.package_archive import archive_path
from pgrepl.spark.private_files import nobody_elses_files, socket_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["build_session", "local_cores"]

_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
_SHELL = "pyspark-shell"
_PYTHON = "spark.pyspark.python"
_DAEMON = "spark.python.daemon.module"

# "local", "local[4]", "local[*]", and with a number of failures behind a comma.
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
# Else everybody on the machine can fetch blocks from the driver, and what they hold leads on to a
# server that runs what it is sent.
_CLOSED = {
    "spark.authenticate": "true",
    "spark.python.unix.domain.socket.enabled": "true",
}
_SOCKETS = "spark.python.unix.domain.socket.dir"


def build_session(config: SparkConfig, app_name: str, *, daemon: str | None = None) -> SparkSession:
    """Start the session, or return the one that runs already.

    ``[spark] conf`` overrides every default here. ``daemon`` is a module that stands in for Spark's
    own on a local master: the executors of a cluster get our package only with the first task.
    """
    # Without this the workers run whatever "python3" is first on PATH, without what we depend on.
    # Spark reads it from the environment when the session is built, and from nowhere else: its own
    # setting holds only for programs that spark-submit starts.
    if _PYTHON in config.conf:
        os.environ["PYSPARK_PYTHON"] = config.conf[_PYTHON]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local_cores(config.master) is not None:
        # A host name that does not resolve would keep a purely local session from starting.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Spark starts Python with "-m", which would import from where this program was started: a
        # folder like /tmp has whatever others put there.
        os.environ["PYTHONSAFEPATH"] = "1"

    from pyspark.sql import SparkSession  # noqa: PLC0415  costs too much for any other command

    log4j = resources.files("pgrepl").joinpath("log4j2.properties")
    java_options = f"{_JAVA_OPTIONS} -Dlog4j2.configurationFile={log4j}"
    defaults = {"spark.driver.extraJavaOptions": java_options, **_DEFAULTS}
    if local_cores(config.master) is not None:
        defaults |= {**_CLOSED, _SOCKETS: str(socket_folder())}
        if daemon is not None:
            defaults[_DAEMON] = daemon
    builder = SparkSession.builder.master(config.master).appName(app_name)
    secret = config.secret_conf()
    for key, value in (defaults | dict(config.conf)).items():
        if key not in secret:
            builder = builder.config(key, value)
    with _secrets_by_file(secret), nobody_elses_files():
        session = builder.getOrCreate()
    if local_cores(config.master) is None:
        _ship(session)
    return session


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


@contextmanager
def _secrets_by_file(secret: Mapping[str, str]) -> Iterator[None]:
    """Hand settings to the JVM by a file of ours alone.

    What the builder is given becomes arguments of the JVM, and ``ps`` shows those to everybody.
    """
    if not secret:
        yield
        return
    before = os.environ.get(_SUBMIT_ARGS)
    with tempfile.NamedTemporaryFile("w", suffix=".properties", encoding="utf-8") as file:
        file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in secret.items())
        file.flush()
        # The defaults of the machine's own Spark stay in force.
        wanted = f"--load-spark-defaults --properties-file {shlex.quote(file.name)}"
        os.environ[_SUBMIT_ARGS] = f"{wanted} {before or _SHELL}"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_SUBMIT_ARGS]
            else:
                os.environ[_SUBMIT_ARGS] = before


def _escaped(text: str) -> str:
    """Write a text for a Java properties file."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    escaped = "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in plain)
    return "".join(f"\\{c}" if c in " :=#!" else c for c in escaped)
