"""Spark's classes, read and verified once and kept: a JVM with them starts with a third less work.

A JVM that cannot use the archive, because it is another one or has other classes, does without.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pyspark

#: Read by Spark's own scripts, for the JVM of a session.
SUBMIT = "SPARK_SUBMIT_OPTS"
# What cannot be kept is no business of the test that runs.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"

_PROGRAM = """
from pyspark import SparkContext
from pgrepl.config.model import SparkConfig
from pgrepl.spark.session import build_session

session = build_session(SparkConfig(master="local[2]"), "test")
session.sparkContext.parallelize(range(2), 2).map(str).collect()
gateway = SparkContext._gateway
session.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def start_java_quickly(folder: Path) -> None:
    """Let every JVM from here on use the archive in a folder; make it if it is not there."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else "java"
    version = subprocess.run([java, "-version"], capture_output=True, check=True).stderr
    key = hashlib.sha256(f"{pyspark.__file__} {pyspark.__version__} {version!r}".encode())
    archive = folder / f"{key.hexdigest()[:16]}.jsa"
    with (folder / "lock").open("w") as lock:
        # Processes that run tests at once need it at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
    if archive.exists():
        given = os.environ.get(SUBMIT, "")
        os.environ[SUBMIT] = f'{given} "-XX:SharedArchiveFile={archive}" {_QUIET}'.strip()


def _make(archive: Path) -> None:
    unfinished = archive.with_suffix(".new")
    options = f'"-XX:ArchiveClassesAtExit={unfinished}" {_QUIET}'
    subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        env={**os.environ, SUBMIT: options},
        check=False,  # without the archive a JVM starts as ever
    )
    if unfinished.exists():
        unfinished.rename(archive)
