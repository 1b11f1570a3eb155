"""A standby of a throwaway server, set up as docs/operating.md says."""

from __future__ import annotations

from collections.abc import Mapping

from pgrepl.throwaway.cluster import LOGICAL_DECODING, Cluster
from tests.support.database import Database
from tests.support.waiting import wait_until

__all__ = ["Standby", "wait_synced"]

#: The physical slot of the standby on its primary.
_SLOT = "standby"


class Standby(Cluster):
    """Streams from a primary; from PostgreSQL 17 on it keeps the failover slots of that."""

    def __init__(self, primary: Cluster) -> None:
        """Copy the primary, and follow it."""
        self._primary = primary
        #: Whether servers of this version can keep logical slots on standbys.
        self.keeps_slots = "sync_replication_slots" in primary.binaries.settings
        settings = {
            "hot_standby": "on",
            "hot_standby_feedback": "on",
            "primary_conninfo": primary.dsn(),
            "primary_slot_name": _SLOT,
            "wal_retrieve_retry_interval": "200ms",
            # It has none itself, and would wait for one as its primary does.
            **self._known("synchronized_standby_slots", ""),
        }
        self._write(primary, "synchronized_standby_slots", _SLOT)
        super().__init__(
            binaries=primary.binaries,
            settings={
                **LOGICAL_DECODING,
                **settings,
                **self._known("sync_replication_slots", "on"),
            },
        )

    def initialise(self) -> None:
        """Make the data directory from that of the primary."""
        self._run(
            "pg_basebackup",
            *("-D", self.data, "-d", self._primary.dsn(), "-R", "-C", "-S", _SLOT),
            *("-c", "fast", "--no-sync"),
        )

    def promote(self) -> None:
        """Make it the primary."""
        self._run("pg_ctl", "promote", "-D", self.data, "-w", "-s")

    def _known(self, name: str, value: str) -> Mapping[str, str]:
        return {name: value} if name in self._primary.binaries.settings else {}

    def _write(self, primary: Cluster, name: str, value: str) -> None:
        primary.configure(self._known(name, value))
        Database(primary, "postgres").execute("select pg_reload_conf()")


def wait_synced(standby: Standby, primary: Database, slot: str) -> None:
    """Wait until the standby keeps a slot that is received from meanwhile."""

    def is_synced() -> bool:
        # What the standby needs to take it: a position that is decoded from later than its own.
        primary.execute("select pg_log_standby_snapshot()", "insert into synced default values")
        return bool(
            Database(standby, primary.name).rows(
                "select from pg_replication_slots"
                f" where slot_name = '{slot}' and synced and not temporary"
            )
        )

    wait_until(is_synced)
