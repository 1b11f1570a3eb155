"""A target with a synchronous standby that can take its place, both on small disks."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pgrepl.throwaway import Cluster, ServerBinaries
from tests.support.database import Database
from tests.support.machine.proxy import Proxy
from tests.support.machine.small_disk import create_database_on, small_disk
from tests.support.waiting import wait_until

NAME = "warehouse"
_SETTINGS = {
    "wal_level": "replica",
    "hot_standby": "on",
    "max_wal_senders": "10",
    "wal_keep_size": "256MB",
    # Whoever commits on a primary that was restarted waits for its standby to come back.
    "wal_retrieve_retry_interval": "200ms",
    "max_connections": "100",
    "max_replication_slots": "20",
    "max_active_replication_origins": "20",
    # What was confirmed to a source is on the standby too, so that a promotion loses nothing.
    "synchronous_standby_names": "*",
}


@dataclass
class _Node:
    cluster: Cluster
    place: Path
    stack: ExitStack


class TargetPair:
    """``proxy`` leads to the server that is the primary."""

    def __init__(self, binaries: ServerBinaries, disk_mb: int) -> None:
        self._binaries = binaries
        self._disk_mb = disk_mb
        # Nothing waits for a standby before there is one.
        self._primary = self._make({**_SETTINGS, "synchronous_standby_names": ""})
        self.database = create_database_on(self._primary.cluster, self._primary.place, NAME)
        self.proxy = Proxy(self.database)
        self._standby = self._make_standby()
        self._primary.cluster.configure(_SETTINGS)
        self.database.execute("select pg_reload_conf()")

    @property
    def cluster(self) -> Cluster:
        return self._primary.cluster

    @property
    def place(self) -> Path:
        """The folder of the tablespace, on the primary's disk."""
        return self._primary.place

    def dsn(self) -> str:
        """Return the way to the primary of the moment, past the proxy."""
        return self.database.dsn()

    def promote(self) -> None:
        """Lose the primary, put the standby in its place, and give that a standby of its own."""
        lost = self._primary
        lost.cluster.stop("immediate")
        self.proxy.cut()
        self._primary = self._standby
        self._run("pg_ctl", "promote", "-D", self.cluster.data, "-w", "-s")
        self.database = Database(self.cluster, NAME)
        self.proxy.lead_to(self.database)
        lost.stack.close()
        self._standby = self._make_standby()

    def close(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._primary.stack.close)
            stack.callback(self._standby.stack.close)
            stack.enter_context(self.proxy)

    def _make(self, settings: dict[str, str]) -> _Node:
        with ExitStack() as stack:
            place = stack.enter_context(small_disk(self._disk_mb))
            cluster = stack.enter_context(Cluster(binaries=self._binaries, settings=settings))
            return _Node(cluster, place, stack.pop_all())

    def _make_standby(self) -> _Node:
        node = self._make(_SETTINGS)
        node.cluster.stop("immediate")
        shutil.rmtree(node.cluster.data)
        primary = self._primary
        self._run(
            "pg_basebackup",
            *("-D", node.cluster.data, "-h", primary.cluster.socket_dir, "-U", "postgres"),
            *("-p", str(primary.cluster.port), "-R", "-X", "stream", "-c", "fast", "--no-sync"),
            *("-T", f"{primary.place}={node.place}"),
        )
        node.cluster.configure(_SETTINGS)
        node.cluster.start()
        wait_until(
            lambda: self.database.value(
                "select count(*) from pg_stat_replication where state = 'streaming'"
            ),
            timeout_s=600,
        )
        return node

    def _run(self, program: str, *arguments: str | Path) -> None:
        account = self.cluster._account
        subprocess.run(
            [self._binaries.program(program), *arguments],
            check=True,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            **account.subprocess_user,
        )
