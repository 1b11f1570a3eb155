"""Find PostgreSQL's server programs and the wal2json plugin on this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pgrepl.errors import ConfigError
from pgrepl.postgres.programs import program_folders, program_output

__all__ = ["MINIMUM_MAJOR", "PREFERRED_MAJOR", "ServerBinaries", "find_binaries"]

MINIMUM_MAJOR = 15
PREFERRED_MAJOR = 15


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
        text = program_output(self.program("postgres"), "--version")
        match = re.search(r"(\d+)(?:\.(\d+))?", text)
        return (int(match[1]), int(match[2] or 0)) if match else (0, 0)

    @cached_property
    def has_wal2json(self) -> bool:
        """Whether the plugin is installed for this version."""
        pg_config = self.program("pg_config")
        # Debian installs pg_config with the development package only; its layout is fixed.
        libdir = (
            Path(program_output(pg_config, "--pkglibdir").strip())
            if pg_config.exists()
            else self.bindir.parent / "lib"
        )
        return (libdir / "wal2json.so").exists() or (libdir / "wal2json.dylib").exists()

    @cached_property
    def settings(self) -> frozenset[str]:
        """The names of all settings this server knows."""
        lines = program_output(self.program("postgres"), "--describe-config").splitlines()
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
        for place in ([bindir] if bindir is not None else program_folders("postgres"))
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
