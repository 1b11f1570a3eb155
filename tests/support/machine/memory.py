"""How much memory another process took."""

from __future__ import annotations

from pathlib import Path


def peak_mib(pid: int) -> int:
    """Return the most that a running process ever held."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024
