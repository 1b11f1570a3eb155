"""Has the archive of Spark's classes made beside a service: once for a Java and a Spark.

``ArchiveMaker`` is its owner's side, ``main`` the process that does it, at the lowest priority: it
starts a session of its own, runs a job, and has the JVM write down what classes that took.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

from pgrepl.config.model import SparkConfig
from pgrepl.spark.class_archive import find_archive
from pgrepl.spark.jvm import find_spark_home
from pgrepl.spark.session import SessionStart

__all__ = ["ArchiveMaker", "main"]

_LOWEST_PRIORITY = 19
_PATIENCE_S = 10.0


class ArchiveMaker:
    """The process that makes the archive."""

    def __init__(self) -> None:
        """Start it, if there is no archive and one can be kept."""
        archive = find_archive(find_spark_home())
        self._process: subprocess.Popen[bytes] | None = None
        if archive is not None and not archive.is_there:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-c"),
                    f"import os; os.nice({_LOWEST_PRIORITY}); from {__name__} import main; main()",
                ],
                stdin=subprocess.PIPE,
                # Without the archive a session starts as ever: nobody need hear of it.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End it, whatever it does."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Make the archive; SIGTERM breaks it off."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=_follow_owner, daemon=True).start()
    archive = find_archive(find_spark_home())
    if archive is None:
        return
    start = SessionStart(SparkConfig(master="local[2]"), "pgrepl-classes", recording=archive)
    with suppress(KeyboardInterrupt):
        try:
            start.run().sparkContext.parallelize(range(2), 2).map(str).collect()
            start.end()
            archive.keep()
        except BaseException:
            start.kill()
            archive.forget()
            raise


def _follow_owner() -> None:
    """End with the owner, whatever ended it: then standard input ends."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)
