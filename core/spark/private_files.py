"""Sockets of a session that no other user of the machine can reach."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

from pgrepl.errors import ConfigError

__all__ = ["socket_folder"]

#: A socket's path has 107 bytes; Spark's names there are of the form ".<uuid>.sock".
_LONGEST_FOLDER = 107 - len("/.00000000-0000-0000-0000-000000000000.sock")
_PREFIX = "pgrepl-"
#: What ``mkdtemp`` puts after the prefix.
_RANDOM = 8


def socket_folder() -> Path:
    """Return a folder for sockets that only this user can enter; it ends with the process.

    Permissions of a socket itself do not protect it on every system, those of its folder do.
    """
    return Path(_folder().name)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    # Spark's own processes may still be at their end when ours removes it.
    return tempfile.TemporaryDirectory(prefix=_PREFIX, dir=_place(), ignore_cleanup_errors=True)


def _place() -> str:
    """Return where temporary files belong, or another such place if its name is too long."""
    places = (tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR"), "/tmp", "/var/tmp")  # noqa: S108
    for place in places:
        if place and os.access(place, os.W_OK | os.X_OK) and _is_short(place):
            return place
    raise ConfigError(
        f"{places[0]} has too long a name for the sockets of Spark",
        hint="Set TMPDIR to a folder with a shorter name.",
    )


def _is_short(place: str) -> bool:
    return len(os.fsencode(f"{place}/{_PREFIX}")) + _RANDOM <= _LONGEST_FOLDER
