"""Find PostgreSQL's programs on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pgrepl.errors import ConfigError

__all__ = ["find_client", "major_version", "program_folders", "program_output"]

#: Where packages put the programs of each version, which are not on PATH on Debian and Ubuntu.
_PACKAGE_DIRS = (
    ("/usr/lib/postgresql", "*/bin"),  # Debian, Ubuntu
    ("/usr", "pgsql-*/bin"),  # the PostgreSQL project's packages for Red Hat systems
    ("/opt/homebrew/opt", "postgresql@*/bin"),
)


def program_folders(program: str) -> Iterator[Path]:
    """Yield each folder that may hold PostgreSQL's programs, the one on PATH last."""
    seen = set()
    places = [
        place for root, pattern in _PACKAGE_DIRS for place in sorted(Path(root).glob(pattern))
    ]
    on_path = shutil.which(program)
    if on_path is not None:
        places.append(Path(os.path.realpath(on_path)).parent)
    for place in places:
        resolved = place.resolve()
        if resolved not in seen:
            seen.add(resolved)
            yield resolved


def program_output(*command: str | Path) -> str:
    """Run a program and return what it prints, in English whatever the user's language."""
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    return done.stdout


def major_version(program: Path) -> int:
    """Return the major version that a program of PostgreSQL says it has, or 0."""
    match = re.search(r"(\d+)(?:\.\d+)?", program_output(program, "--version"))
    return int(match[1]) if match else 0


def find_client(name: str, server_major: int) -> Path:
    """Return a client program that is at least as new as the server: the closest to it.

    Raises
    ------
    ConfigError
        naming the package to install.

    """
    found: dict[int, Path] = {}
    for folder in program_folders(name):
        program = folder / name
        if program.exists():
            found.setdefault(major_version(program), program)
    fit = [major for major in found if major >= server_major]
    if fit:
        return found[min(fit)]
    there = f"; version {max(found)} is here" if found else ""
    raise ConfigError(
        f"{name} of version {server_major} or newer is not installed here{there}",
        hint=f"On Debian or Ubuntu: sudo apt-get install postgresql-client-{server_major}.",
    )
