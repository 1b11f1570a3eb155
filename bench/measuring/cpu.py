"""CPU seconds: they say more than the clock where the machine has other work."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Mapping
from pathlib import Path

from pgrepl.throwaway import Cluster

__all__ = [
    "all_below",
    "cpu_of",
    "cpu_seconds",
    "find_below",
    "own_cpu_seconds",
    "postmaster",
    "ticks_of",
]


def cpu_seconds(cluster: Cluster) -> float:
    """Return what a server has used so far, with its processes that have ended."""
    return cpu_of(postmaster(cluster))


def own_cpu_seconds() -> float:
    """Return what the tools used so far that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def postmaster(cluster: Cluster) -> int:
    """Return the first process of a server."""
    return int((cluster.data / "postmaster.pid").read_text(encoding="utf-8").split()[0])


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and of its children, those that ended included."""
    stats = _stats()
    ticks = sum(stats[own][1] for own in _below(pid, stats))
    return ticks / os.sysconf("SC_CLK_TCK")


def all_below(pid: int) -> set[int]:
    """Return a process and all that descend from it."""
    return _below(pid, _stats())


def ticks_of(pids: Iterable[int]) -> dict[int, float]:
    """Return the CPU seconds of each process itself, as far as it runs."""
    found = {}
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        found[pid] = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return found


def _below(pid: int, stats: Mapping[int, tuple[int, int]]) -> set[int]:
    below = {pid}
    # A child's number may be smaller than its parent's.
    while more := {own for own, (parent, _) in stats.items() if parent in below} - below:
        below |= more
    return below & stats.keys()


def find_below(ancestor: int, program: str) -> int:
    """Return the first process of this name below another; 0: there is none."""
    stats = _stats()
    for pid in sorted(stats):
        try:
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8")
        except OSError:
            continue
        parent = pid
        while name.startswith(program) and parent in stats and parent != 1:
            parent = stats[parent][0]
            if parent == ancestor:
                return pid
    return 0


def _stats() -> dict[int, tuple[int, int]]:
    """Return the parent and the ticks of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        found[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    return found
