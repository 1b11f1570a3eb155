"""The archive of Spark's classes that pgrepl keeps, in a folder of the tests."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from pgrepl.spark.class_archive import find_archive

#: Less than what a test may take, and enough for a busy machine: without it all JVMs cost twice.
_PATIENCE_S = 400
_MAKE = "from pgrepl.spark.archive_maker import main; main()"


def start_java_quickly(folder: Path) -> None:
    """Let every JVM from here on use the archive in a folder; make it if it is not there."""
    os.environ["XDG_CACHE_HOME"] = str(folder)
    with (folder / "lock").open("w") as lock:
        # Processes that run tests at once need it at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("pgrepl/*.jsa")):
            with subprocess.Popen([sys.executable, "-c", _MAKE], stdin=subprocess.PIPE) as maker:
                # The end of its input would end it.
                try:
                    maker.wait(_PATIENCE_S)
                except subprocess.TimeoutExpired:
                    # A busy machine; it only saves time.
                    maker.kill()


def quick_options() -> str:
    """Return the options of a JVM that is to use the archive, if there is one."""
    archive = find_archive(Path(_find_spark_home()))
    return "" if archive is None else archive.java_options
