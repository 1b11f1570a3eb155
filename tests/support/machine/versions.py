"""Which versions a run tests: what a report of a failure has to say first."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import version

from pgrepl.throwaway import ServerBinaries

__all__ = ["tested_versions"]


def tested_versions(binaries: ServerBinaries) -> str:
    """Return the versions in one line, the server's first."""
    major, minor = binaries.version
    return (
        f"PostgreSQL {major}.{minor}, wal2json {_wal2json(binaries)}, Java {_java()},"
        f" Spark {version('pyspark')}, Python {platform.python_version()}"
    )


def _wal2json(binaries: ServerBinaries) -> str:
    """Ask the package: the plugin itself does not say its version."""
    library = binaries.bindir.parent / "lib" / "wal2json.so"
    owner = _output("dpkg-query", "--search", str(library)).partition(":")[0]
    return _output("dpkg-query", "--show", "--showformat=${Version}", owner) or "of unknown version"


def _java() -> str:
    # Spark takes the Java of JAVA_HOME, and only without it the one on PATH.
    home = os.environ.get("JAVA_HOME")
    said = _output(f"{home}/bin/java" if home else "java", "-version")
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else "of unknown version"


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""
