"""A crontab, for machines where nothing of ours shall run all the time."""

from __future__ import annotations

import shlex

from pgrepl.systemd.units import Installation

__all__ = ["make_crontab"]

_HEAD = """\
# Made by: pgrepl systemd --cron. Install with: crontab FILE, as user {user}.
# A job that finds its predecessor at work exits 75 at once and touches nothing.
SHELL=/bin/sh
PATH=/usr/local/bin:/usr/bin:/bin
"""


def make_crontab(installation: Installation) -> str:
    """Return jobs that receive and replay every minute, and compare a sample every night."""
    lines = [
        *(_line(installation, "* * * * *", "receive", n, "--once") for n in installation.sources),
        _line(installation, "* * * * *", "replay", "--once"),
        _line(installation, "30 3 * * *", "verify", "--sample", "5%"),
    ]
    return _HEAD.format(user=installation.user) + "".join(f"{line}\n" for line in lines)


def _line(installation: Installation, when: str, *arguments: str) -> str:
    command = [str(installation.program), *arguments, "--config", str(installation.config)]
    # To cron a bare % is the end of the line.
    shown = shlex.join(command).replace("%", "\\%")
    return f"{when} {shown} 2>&1 | logger -t pgrepl-{arguments[0]}"
