"""pg_upgrade of a throwaway server."""

from __future__ import annotations

import subprocess

from pgrepl.throwaway.binaries import ServerBinaries
from pgrepl.throwaway.cluster import Cluster
from pgrepl.throwaway.unprivileged import server_account

__all__ = ["upgrade"]

#: From this major version on initdb turns checksums on, and both servers must have them or not.
_CHECKSUMS = 18


def upgrade(cluster: Cluster, binaries: ServerBinaries) -> None:
    """Let pg_upgrade make a server of a throwaway server that is stopped, and start that one."""
    folder = cluster.data.parent
    old = cluster.data.rename(folder / "old")
    before, cluster.binaries = cluster.binaries, binaries
    cluster.initialise()
    if before.version[0] < _CHECKSUMS <= binaries.version[0]:
        cluster._run("pg_checksums", "--disable", "-D", cluster.data)
    # From PostgreSQL 17 on it makes slots, for which the new server has to be set up.
    (cluster.data / "postgresql.conf").write_text((old / "postgresql.conf").read_text())
    done = subprocess.run(
        [
            *(binaries.program("pg_upgrade"), "--link", "--username=postgres"),
            *("--old-bindir", before.bindir, "--new-bindir", binaries.bindir),
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
    cluster.start()
