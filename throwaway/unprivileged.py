"""Run programs as a user that PostgreSQL accepts: never root."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from pgrepl.errors import ConfigError

__all__ = ["Account", "server_account"]


class _SubprocessUser(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns a throwaway cluster."""

    name: str
    uid: int
    gid: int

    @property
    def subprocess_user(self) -> _SubprocessUser:
        """What to pass to ``subprocess`` to run as this account."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give a file or folder to this account."""
        if self.uid != os.geteuid():
            os.chown(path, self.uid, self.gid)


def server_account() -> Account:
    """Return ourselves, or when we are root the user ``postgres``, else ``nobody``.

    Raises
    ------
    ConfigError
        when we are root and there is neither, or another user without a name.

    """
    if os.geteuid() != 0:
        try:
            entry = pwd.getpwuid(os.geteuid())
        except KeyError:
            raise ConfigError(
                f"PostgreSQL does not run as user {os.geteuid()}, who has no entry in /etc/passwd",
                hint=f"Run this as another user, or add one: useradd --uid {os.geteuid()} pgrepl",
            ) from None
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise ConfigError(
        "PostgreSQL does not run as root, and there is no user postgres or nobody",
        hint="Run this as an ordinary user, or create one: useradd --system postgres.",
    )
