"""Which machine it is that something is measured on."""

from __future__ import annotations

import platform
from pathlib import Path

__all__ = ["processor"]


def processor() -> str:
    """Return which processor this is: runs that add to one another may have had others."""
    return next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
