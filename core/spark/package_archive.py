"""Our own package as one file that a Spark cluster takes to its executors.

An executor then runs the very code that planned its work. Nobody installs pgrepl there; only what
pgrepl depends on.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

__all__ = ["archive_path", "write_archive"]

_PACKAGE = "pgrepl"
_NAME = "pgrepl.zip"
# What a running program reads; compiled files are of this machine's Python.
_SUFFIXES = (".py", ".sql", ".properties")


def archive_path() -> Path:
    """Return the archive, made the first time: executors fetch it as long as the process lives."""
    path = Path(_folder().name) / _NAME
    if not path.exists():
        write_archive(path)
    return path


def write_archive(path: Path) -> None:
    """Write the package with its SQL files, importable as it lies there."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _files(resources.files(_PACKAGE), _PACKAGE):
            archive.writestr(name, content)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pgrepl-", ignore_cleanup_errors=True)


def _files(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _files(entry, path)
        elif entry.name.endswith(_SUFFIXES):
            yield path, entry.read_bytes()
