"""Spark's classes, read and verified once and kept: a JVM with them starts with half the work.

They are code, and 110 MB of it: a file in the user's own cache, taken from nobody else. To write it
costs more than a start: a service has it done beside its work (``archive_maker``). A JVM that
cannot use it, because it is another one or has other classes, does without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ClassArchive", "find_archive"]

_SUFFIX = ".jsa"
# What cannot be kept or used is no business of whoever waits for a session.
_QUIET = "-Xlog:disable"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
#: Those of versions that were in use before are removed.
_KEPT_S = 30 * 86_400


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Where the classes are kept, or will be."""

    path: Path
    #: Whether they are.
    is_there: bool

    @property
    def java_options(self) -> str:
        """What tells a JVM to use them, if they are there."""
        return f'"-XX:SharedArchiveFile={self.path}" {_QUIET}' if self.is_there else ""

    @property
    def recording_options(self) -> str:
        """What tells a JVM to write them down when it ends."""
        return f'"-XX:ArchiveClassesAtExit={self._unfinished}" {_QUIET}'

    @property
    def _unfinished(self) -> Path:
        return self.path.with_suffix(f".{os.getpid()}")

    def keep(self) -> None:
        """Take what the JVM has written, after its end."""
        if not self._unfinished.exists():
            return
        self._unfinished.rename(self.path)
        for other in self.path.parent.iterdir():
            if other != self.path and time.time() - other.stat().st_mtime > _KEPT_S:
                other.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove what a JVM that was broken off may have written."""
        self._unfinished.unlink(missing_ok=True)


def find_archive(spark_home: Path) -> ClassArchive | None:
    """Return the archive for this Java and this Spark; None where it cannot be kept safely."""
    java = _find_java()
    folder = _own_folder()
    if java is None or folder is None:
        return None
    path = folder / f"{_key(java, spark_home)}{_SUFFIX}"
    if not os.path.lexists(path):
        return ClassArchive(path, is_there=False)
    return ClassArchive(path, is_there=True) if _is_ours_alone(path, stat.S_ISREG) else None


def _find_java() -> Path | None:
    """Return the program that Spark's scripts run."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(Path(home, "bin", "java") if home else "java")
    return None if found is None else Path(found).resolve()


def _own_folder() -> Path | None:
    """Return a folder that only this user can look into or change, made if need be."""
    # A service of systemd has a place of its own.
    given = os.environ.get("CACHE_DIRECTORY", "").split(":")[0]
    home = os.environ.get("HOME")
    cache = os.environ.get("XDG_CACHE_HOME") or (home and f"{home}/.cache")
    if not given and not cache:
        return None
    folder = Path(given or f"{cache}/pgrepl")
    try:
        folder.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
    except OSError:
        return None
    is_ours = _is_ours_alone(folder, stat.S_ISDIR) and os.access(folder, os.W_OK)
    # It becomes an option of the JVM, in quotes.
    return folder if is_ours and folder.is_absolute() and '"' not in str(folder) else None


def _is_ours_alone(path: Path, is_kind: Callable[[int], bool]) -> bool:
    """Whether others can neither have made it nor change it; a link is not followed."""
    found = path.lstat()
    return is_kind(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & _OTHERS


def _key(java: Path, spark_home: Path) -> str:
    """Return what tells this Java and this Spark from others, without asking them."""
    files = [(path, path.stat()) for path in (java, spark_home / "jars")]
    known = [(str(path), found.st_size, found.st_mtime_ns) for path, found in files]
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16]
