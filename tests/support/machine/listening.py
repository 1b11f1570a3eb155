"""What processes of ours listen on, as Linux says."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_LISTENING = "0A"
_ACCEPTS = 0x10000


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for file in _PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            # The program's name is in parentheses, whatever it holds.
            parent = int(file.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(file.parent.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def listening_ports(pids: Iterable[int]) -> list[int]:
    """Return the TCP ports on which processes take connections."""
    own = _inodes(pids)
    lines = [line for name in ("tcp", "tcp6") for line in _lines(name)]
    fields = [line.split() for line in lines]
    return [int(f[1].rpartition(":")[2], 16) for f in fields if f[3] == _LISTENING and f[9] in own]


def listening_sockets(pids: Iterable[int]) -> list[str]:
    """Return the sockets of the file system on which processes take connections."""
    own = _inodes(pids)
    fields = [line.split(maxsplit=7) for line in _lines("unix")]
    return [f[7] for f in fields if len(f) > 7 and int(f[3], 16) & _ACCEPTS and f[6] in own]


def _lines(name: str) -> list[str]:
    return (_PROC / "net" / name).read_text().splitlines()[1:]


def _inodes(pids: Iterable[int]) -> set[str]:
    found = set()
    for pid in pids:
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                found.add(os.readlink(descriptor).removeprefix("socket:[").rstrip("]"))  # noqa: PTH115
    return found
