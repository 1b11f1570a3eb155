"""CPU seconds: they say more than the clock where the machine has other work."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from pgrepl.throwaway import Cluster


def cpu_seconds(cluster: Cluster) -> float:
    """Return what a server has used so far, with its processes that have ended."""
    postmaster = (cluster.data / "postmaster.pid").read_text().split()[0]
    total = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if file.parent.name == postmaster:
            total += sum(map(int, fields[11:15]))
        elif fields[1] == postmaster:
            total += sum(map(int, fields[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


def own_cpu_seconds() -> float:
    """Return what the tools used so far that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
