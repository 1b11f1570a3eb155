"""Find PostgreSQL's server programs and the wal2json plugin on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pgrepl.errors import ConfigError

__all__ = ["MINIMUM_MAJOR", "PREFERRED_MAJOR", "ServerBinaries", "find_binaries"]

MINIMUM_MAJOR = 15
PREFERRED_MAJOR = 15

#: Where packages put server programs, which are not on PATH on Debian and Ubuntu.
_PACKAGE_DIRS = (
    ("/usr/lib/postgresql", "*/bin"),  # Debian, Ubuntu
    ("/usr", "pgsql-*/bin"),  # the PostgreSQL project's packages for Red Hat systems
    ("/opt/homebrew/opt", "postgresql@*/bin"),
)


@dataclass(frozen=True)
class ServerBinaries:
    """The folder with ``initdb``, ``postgres`` and ``pg_ctl`` of one version."""

    bindir: Path

    def program(self, name: str) -> Path:
        """Return the path of one program."""
        return self.bindir / name

    @cached_property
    def version(self) -> tuple[int, int]:
        """Major and minor version of the server."""
        text = _output(self.program("postgres"), "--version")
        match = re.search(r"(\d+)(?:\.(\d+))?", text)
        return (int(match[1]), int(match[2] or 0)) if match else (0, 0)

    @cached_property
    def has_wal2json(self) -> bool:
        """Whether the plugin is installed for this version."""
        pg_config = self.program("pg_config")
        # Debian installs pg_config with the development package only; its layout is fixed.
        libdir = (
            Path(_output(pg_config, "--pkglibdir").strip())
            if pg_config.exists()
            else self.bindir.parent / "lib"
        )
        return (libdir / "wal2json.so").exists() or (libdir / "wal2json.dylib").exists()

    @cached_property
    def settings(self) -> frozenset[str]:
        """The names of all settings this server knows."""
        lines = _output(self.program("postgres"), "--describe-config").splitlines()
        return frozenset(line.split("\t", 1)[0] for line in lines)


def find_binaries(bindir: Path | None = None) -> ServerBinaries:
    """Return the server to use: version 15 with wal2json, else the newest with it.

    Raises
    ------
    ConfigError
        naming the packages to install.

    """
    found = [
        ServerBinaries(place)
        for place in ([bindir] if bindir is not None else _candidates())
        if all((place / name).exists() for name in ("initdb", "postgres", "pg_ctl"))
    ]
    fit = [binaries for binaries in found if binaries.version[0] >= MINIMUM_MAJOR]
    usable = [binaries for binaries in fit if binaries.has_wal2json]
    if usable:
        return max(usable, key=lambda b: (b.version[0] == PREFERRED_MAJOR, b.version))
    if fit:
        major = fit[0].version[0]
        raise ConfigError(
            f"PostgreSQL {major} is installed without the wal2json plugin",
            hint=f"On Debian or Ubuntu: sudo apt-get install postgresql-{major}-wal2json.",
        )
    raise ConfigError(
        f"no PostgreSQL server of version {MINIMUM_MAJOR} or newer is installed",
        hint="Run make setup in the repository, or install postgresql-15 and"
        " postgresql-15-wal2json.",
    )


def _candidates() -> Iterator[Path]:
    seen = set()
    for place in _places():
        resolved = place.resolve()
        if resolved not in seen:
            seen.add(resolved)
            yield resolved


def _places() -> Iterable[Path]:
    for root, pattern in _PACKAGE_DIRS:
        yield from sorted(Path(root).glob(pattern))
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(os.path.realpath(on_path)).parent


def _output(*command: str | Path) -> str:
    # LC_ALL: the server prints its version and settings in English whatever the user's language.
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    return done.stdout
