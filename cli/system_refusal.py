"""What to say of a file that the system does not let pgrepl use, its own files included."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pgrepl
from pgrepl.errors import ConfigError, PgreplError

__all__ = ["refusal_of"]


def refusal_of(exc: OSError | ImportError) -> PgreplError:
    """Name the file; one that pgrepl was installed with has a remedy of its own."""
    if isinstance(exc, ImportError) or _is_installed(exc.filename):
        file = _first_unreadable() or (exc.filename if isinstance(exc, OSError) else None)
        if file is not None:
            return ConfigError(
                f"{file}: permission denied; pgrepl cannot read a file it is installed with",
                hint=f"As the owner of the folder run: chmod -R a+rX {_folder_of(Path(file))}",
            )
    if isinstance(exc, ImportError):
        return ConfigError(
            f"module {exc.name or 'of unknown name'} cannot be imported",
            hint="Install pgrepl again with everything it depends on: pip install pgrepl",
        )
    reason = (exc.strerror or type(exc).__name__).lower()
    if exc.filename is None:
        return PgreplError(f"the system refused: {reason}")
    return PgreplError(f"{os.fsdecode(exc.filename)}: {reason}")


def _is_installed(filename: object) -> bool:
    if not isinstance(filename, str):
        return False
    path = Path(filename).resolve()
    return any(path.is_relative_to(folder) for folder in (*_package_folders(), Path(sys.prefix)))


def _package_folders() -> list[Path]:
    return [Path(folder).resolve() for folder in pgrepl.__path__]


def _first_unreadable() -> str | None:
    """Return the first of our files or folders that this user cannot read."""
    for path in _files():
        if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
            return str(path)
    return None


def _files() -> Iterator[Path]:
    for top in _package_folders():
        for folder, folders, files in os.walk(top):
            yield Path(folder)
            yield from (Path(folder, name) for name in (*sorted(folders), *sorted(files)))


def _folder_of(file: Path) -> str:
    """Return the folder to open up: the whole package, or where a dependency is."""
    tops = [top for top in _package_folders() if file.is_relative_to(top)]
    return shlex.quote(str(tops[0] if tops else sys.prefix))
