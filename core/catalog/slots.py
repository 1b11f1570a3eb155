"""Replication slots, as the server that has them describes them, and the end of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from psycopg.rows import class_row

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import Plugin
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated

__all__ = ["FAILOVER_VERSION", "PLUGINS", "Slot", "drop_slot", "read_slot", "read_slots"]

#: From this version on a slot can be kept on standbys too.
FAILOVER_VERSION = 170000

#: The output plugins of our slots.
PLUGINS: tuple[Plugin, ...] = get_args(Plugin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A row of ``sql/slots.sql``."""

    name: str
    #: Both are None for a physical slot.
    plugin: str | None
    dbname: str | None
    #: Whether it is one of the database that was asked.
    is_here: bool
    is_temporary: bool = False
    is_active: bool = False
    #: Who reads from it at this moment.
    active_pid: int | None = None
    wal_status: str | None = None
    #: What can be written before it is lost; None without a limit.
    safe_bytes: int | None = None
    #: Where the server has to begin to decode.
    restart_lsn: Lsn | None = None
    confirmed_flush_lsn: Lsn | None = None
    #: WAL that the server keeps for it.
    held_bytes: int | None = None
    #: Whether standbys keep it too; None before PostgreSQL 17.
    is_failover: bool | None = None
    #: Why the server invalidated it; None: it did not, or does not say.
    lost_by: str | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the server removed WAL that it still needed, or may."""
        return self.wal_status == "lost" or self.lost_by is not None

    @property
    def loss(self) -> str:
        """Why it is lost, in words."""
        if self.lost_by == "idle_timeout":
            return "nobody read from it for longer than idle_replication_slot_timeout"
        return "the server removed WAL that it still needed"

    @property
    def limit(self) -> str:
        """The setting by which it was lost."""
        is_idle = self.lost_by == "idle_timeout"
        return "idle_replication_slot_timeout" if is_idle else "max_slot_wal_keep_size"


def read_slot(connection: Connection, name: str) -> Slot | None:
    """Return the slot of a name, in whatever database of the server it is."""
    return next(iter(_read(connection, name)), None)


def read_slots(connection: Connection) -> Sequence[Slot]:
    """Return the logical slots of this database, by name."""
    return _read(connection, None)


def _read(connection: Connection, name: str | None) -> Sequence[Slot]:
    with connection.cursor(row_factory=class_row(Slot)) as cursor:
        return cursor.execute(load_query("pgrepl.catalog", "slots"), {"slot": name}).fetchall()


def drop_slot(connection: Connection, endpoint: Endpoint, slot: str) -> bool:
    """Drop a slot of pgrepl if it is there, and return whether it was."""
    with translated(endpoint, f'cannot drop slot "{slot}"'):
        dropped = connection.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
            " where slot_name = %s and plugin = any (%s) and database = current_database()",
            (slot, list(PLUGINS)),
        ).fetchall()
    return bool(dropped)
