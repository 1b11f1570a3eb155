"""pg_upgrade of a throwaway server."""

from __future__ import annotations

import subprocess

from pgrepl.throwaway.cluster import Cluster
from pgrepl.throwaway.unprivileged import server_account

__all__ = ["upgrade"]


def upgrade(cluster: Cluster) -> None:
    """Let pg_upgrade make a server of a throwaway server that is stopped, and start that one."""
    folder = cluster.data.parent
    old = cluster.data.rename(folder / "old")
    cluster.initialise()
    bindir = cluster.binaries.program("postgres").parent
    done = subprocess.run(
        [
            *(cluster.binaries.program("pg_upgrade"), "--link", "--username=postgres"),
            *("--old-bindir", bindir, "--new-bindir", bindir),
            *("--old-datadir", old, "--new-datadir", cluster.data, "--socketdir", folder),
        ],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        **server_account().subprocess_user,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (cluster.data / "postgresql.conf").write_text((old / "postgresql.conf").read_text())
    cluster.start()
