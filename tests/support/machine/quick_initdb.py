"""Clusters of tests are copies of one that initdb made: to copy takes a tenth of the work.

Each gets a system identifier of its own, as initdb would give it: who follows a server tells it
from others by that.
"""

from __future__ import annotations

import os
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgrepl.throwaway import Cluster

_IDENTIFIER = struct.Struct("=Q")
_CHECKSUM = struct.Struct("=I")
#: In the first page of each segment of the WAL, after the header that all pages have.
_IDENTIFIER_IN_WAL = 24
_CASTAGNOLI = 0x82F63B78


@contextmanager
def copy_clusters(folder: Path) -> Iterator[None]:
    """Have initdb run for the first cluster of each version only; it is kept in a folder."""
    run_initdb = Cluster.initialise
    lock = threading.Lock()

    def initialise(cluster: Cluster) -> None:
        kept = folder / cluster.binaries.bindir.as_posix().strip("/").replace("/", "-")
        with lock:
            if not kept.exists():
                run_initdb(cluster)
                _copy(cluster.data, kept, cluster)
                return
        _copy(kept, cluster.data, cluster)
        _identify(cluster.data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "initialise", initialise)
        yield


def _copy(of: Path, to: Path, cluster: Cluster) -> None:
    stdin = cluster._reaper.stdin
    # As for initdb: who removes the folder waits for it.
    held = () if stdin is None else (stdin.fileno(),)
    subprocess.run(["cp", "-a", f"{of}/.", to], check=True, pass_fds=held)


def _identify(data: Path) -> None:
    """Give a server that never ran another system identifier."""
    seconds, nanoseconds = divmod(time.time_ns(), 10**9)
    identifier = _IDENTIFIER.pack(
        seconds << 32 | (nanoseconds // 1000) << 12 | (os.getpid() & 0xFFF)
    )
    control = data / "global" / "pg_control"
    old = control.read_bytes()
    # Where the checksum stands depends on the version.
    (end,) = (
        offset
        for offset, checksum in enumerate(_checksums(old[:512]))
        if offset % _CHECKSUM.size == 0 and old[offset:].startswith(_CHECKSUM.pack(checksum))
    )
    new = identifier + old[_IDENTIFIER.size : end]
    checksum = _CHECKSUM.pack(_checksums(new)[-1])
    control.write_bytes(new + checksum + old[end + _CHECKSUM.size :])
    (segment,) = (path for path in (data / "pg_wal").iterdir() if path.is_file())
    with segment.open("r+b") as wal:
        wal.seek(_IDENTIFIER_IN_WAL)
        assert wal.read(_IDENTIFIER.size) == old[: _IDENTIFIER.size]
        wal.seek(_IDENTIFIER_IN_WAL)
        wal.write(identifier)


def _checksums(data: bytes) -> list[int]:
    """Return the CRC-32C of each beginning of it, that of nothing first."""
    value = 0xFFFFFFFF
    found = [0]
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        found.append(value ^ 0xFFFFFFFF)
    return found
