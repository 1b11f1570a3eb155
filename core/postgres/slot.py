"""pgrepl's replication slot on a source."""

from __future__ import annotations

from typing import get_args

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import Plugin
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated

__all__ = ["FAILOVER_VERSION", "PLUGINS", "drop_slot"]

#: From this version on a slot can be kept on standbys too.
FAILOVER_VERSION = 170000

#: The output plugins of our slots.
PLUGINS: tuple[Plugin, ...] = get_args(Plugin)


def drop_slot(connection: Connection, endpoint: Endpoint, slot: str) -> bool:
    """Drop the slot if it is there, and return whether it was."""
    with translated(endpoint, f'cannot drop slot "{slot}"'):
        dropped = connection.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
            " where slot_name = %s and plugin = any (%s) and database = current_database()",
            (slot, list(PLUGINS)),
        ).fetchall()
    return bool(dropped)
