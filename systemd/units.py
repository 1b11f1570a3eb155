"""Unit files for systemd. Pure functions: what they need to know of this machine is handed in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgrepl.errors import ConfigError, Interrupted, PgreplError, Retry

__all__ = ["MADE_BY", "Installation", "make_units", "permanent_exit_codes"]

#: The first line of every file: what begins with it may be written over.
MADE_BY = "# Made by: pgrepl systemd. Keep your own settings in a drop-in: systemctl edit UNIT."

_PLAIN = re.compile(r"[\w./@+-]+")

_UNIT = """\
{made_by}
[Unit]
Description={description}
After=network-online.target postgresql.service
Wants=network-online.target
PartOf=pgrepl.target
# What ends it passes by itself, or is listed below: it never gives up.
StartLimitIntervalSec=0

[Service]
{service}
User={user}
Group={group}
# Optional: PGPASSFILE, PGSERVICEFILE, JAVA_HOME and the like.
EnvironmentFile=-/etc/pgrepl/environment
Restart=on-failure
RestartSec=10
# Usage, configuration, spool, DDL or parked tables: a person fixes something first.
RestartPreventExitStatus={permanent}
# Stopped on purpose.
SuccessExitStatus={interrupted}
{hardening}

[Install]
WantedBy=pgrepl.target
"""

# The state is on the target: nothing is written here but Spark's temporary files. With PrivateTmp a
# server's socket in /tmp is out of sight; sockets in /run/postgresql are not.
_HARDENING = """\
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6{netlink}
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM"""

# Ready means streaming, so a source that is down at boot must not count as a failed start. The
# watchdog hears from it also while it waits for a server that does not answer.
_RECEIVE = """\
Type=notify
NotifyAccess=main
ExecStart={program} receive %i --config {config}
ExecReload=/bin/kill -HUP $MAINPID
TimeoutStartSec=infinity
TimeoutStopSec=30
WatchdogSec=120"""

# Spark's JVM is a child: it ends with its parent, and is killed if it does not. Its classes are
# kept in the cache.
_REPLAY = """\
Type=exec
ExecStart={program} replay --config {config}
ExecReload=/bin/kill -HUP $MAINPID
CacheDirectory=pgrepl
CacheDirectoryMode=0700
KillMode=mixed
TimeoutStopSec=120"""

# Instances are named by who runs it; the options stand in a file, so that none is in the unit.
_EXPORT = """\
Type=exec
# PGREPL_EXPORT: what stands after "pgrepl export", such as: shop --to kafka://10.0.0.7:9092/shop
EnvironmentFile=/etc/pgrepl/export/%i
ExecStart={program} export $PGREPL_EXPORT --config {config}
TimeoutStopSec=120
# A folder that files are exported to, in a drop-in: ReadWritePaths=/srv/changes"""

_TARGET = """\
{made_by}
[Unit]
Description=pgrepl: replication of PostgreSQL databases into one
Wants={wants}

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where things are on the machine that will run them."""

    program: Path
    config: Path
    user: str
    group: str
    sources: Sequence[str]


def permanent_exit_codes() -> list[int]:
    """Return the exit codes after which the same start would end the same way."""
    kinds = _all_kinds(PgreplError)
    passing = {kind.exit_code for kind in kinds if kind.retry is Retry.TIMED}
    # A bug may need just that input, and Ctrl-C is no failure.
    spared = {PgreplError.exit_code, Interrupted.exit_code}
    return sorted({kind.exit_code for kind in kinds} - passing - spared)


def _all_kinds(kind: type[PgreplError]) -> list[type[PgreplError]]:
    return [kind, *(below for sub in kind.__subclasses__() for below in _all_kinds(sub))]


def make_units(installation: Installation) -> Mapping[str, str]:
    """Return the unit files by their names.

    Raises
    ------
    ConfigError
        when systemd could not start the program where it is.

    """
    paths = {
        "program": _program(installation.program),
        "config": _argument(installation.config),
    }
    receivers = [f"pgrepl-receive@{name}.service" for name in installation.sources]
    return {
        "pgrepl.target": _TARGET.format(
            made_by=MADE_BY, wants=" ".join([*receivers, "pgrepl-replay.service"])
        ),
        "pgrepl-receive@.service": _unit(
            installation,
            "pgrepl: receive source %i",
            _RECEIVE.format(**paths),
            _HARDENING.format(netlink=""),
        ),
        "pgrepl-replay.service": _unit(
            installation,
            "pgrepl: replay into the target",
            _REPLAY.format(**paths),
            # The JVM asks the kernel for the machine's addresses.
            _HARDENING.format(netlink=" AF_NETLINK"),
        ),
        "pgrepl-export@.service": _unit(
            installation,
            "pgrepl: export %i",
            _EXPORT.format(**paths),
            _HARDENING.format(netlink=""),
        ),
    }


def _unit(installation: Installation, description: str, service: str, hardening: str) -> str:
    return _UNIT.format(
        made_by=MADE_BY,
        description=description,
        service=service,
        user=installation.user,
        group=installation.group,
        permanent=" ".join(map(str, permanent_exit_codes())),
        interrupted=Interrupted.exit_code,
        hardening=hardening,
    )


def _program(path: Path) -> str:
    """Write the path of a program: systemd takes no quotes there, and no variables."""
    text = str(path)
    if set(text) & set("\"'\\"):
        raise ConfigError(
            f"systemd cannot start a program at {text}",
            hint="Install pgrepl in a folder whose name has no quotes and no backslash.",
        )
    return _quoted(text.replace("%", "%%"))


def _argument(path: Path) -> str:
    """Write a path as an argument: systemd reads quotes, backslashes, % and $ its own way.

    >>> _argument(Path("/srv/50% off/pgrepl.toml"))
    '"/srv/50%% off/pgrepl.toml"'
    """
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return _quoted(text.replace("%", "%%").replace("$", "$$"))


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else f'"{text}"'
