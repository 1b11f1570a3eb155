"""pgrepl's replication slot on a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from psycopg.rows import class_row

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import Plugin
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated

__all__ = ["FAILOVER_VERSION", "PLUGINS", "Slot", "drop_slot", "find_slot"]

#: From this version on a slot can be kept on standbys too.
FAILOVER_VERSION = 170000

#: The output plugins of our slots.
PLUGINS: tuple[Plugin, ...] = get_args(Plugin)


@dataclass(frozen=True, slots=True)
class Slot:
    """What a source says of a slot."""

    plugin: str | None
    #: Whether it is of the session's database.
    is_here: bool
    wal_status: str | None

    @property
    def is_lost(self) -> bool:
        """Whether the source removed WAL that it still needed."""
        return self.wal_status == "lost"


def find_slot(connection: Connection, endpoint: Endpoint, slot: str) -> Slot | None:
    """Return what is known of a slot; None: there is none."""
    with (
        translated(endpoint, "cannot look for the slot"),
        connection.cursor(row_factory=class_row(Slot)) as cursor,
    ):
        return cursor.execute(
            "select plugin::text, coalesce(database = current_database(), false) as is_here,"
            " wal_status from pg_replication_slots where slot_name = %s",
            (slot,),
        ).fetchone()


def drop_slot(connection: Connection, endpoint: Endpoint, slot: str) -> bool:
    """Drop the slot if it is there, and return whether it was."""
    with translated(endpoint, f'cannot drop slot "{slot}"'):
        dropped = connection.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
            " where slot_name = %s and plugin = any (%s) and database = current_database()",
            (slot, list(PLUGINS)),
        ).fetchall()
    return bool(dropped)
