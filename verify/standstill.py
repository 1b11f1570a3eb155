"""What a slot that nobody reads still holds: the tables whose changes the target lacks.

Without a receiver no position of the source is ever passed, because every server writes WAL now and
then. What counts is whether there are changes in it, and of which tables. The slot is only looked
into: nothing is taken out of it.
"""

from __future__ import annotations

import psycopg

from pgrepl.catalog.slots import read_slot
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.spool.spool_format import DDL_TABLE

__all__ = ["TableName", "Waiting", "read_waiting"]

TableName = tuple[str, str]
#: The most changes that are looked at; what follows more of them is not known.
_MOST_CHANGES = 100_000


class Waiting(frozenset[TableName]):
    """The tables whose changes wait in a slot."""

    __slots__ = ()

    def concerns(self, table: TableName) -> bool:
        """Whether the target may lack changes of a table: DDL may be about any."""
        return table in self or DDL_TABLE in self


def read_waiting(connection: Connection, slot: str, until: Lsn) -> tuple[Lsn, Waiting] | None:
    """Return where a slot begins, and the tables that have changes in it up to a position.

    None: it is being read, or holds more than can be looked at, or another plugin's messages.
    """
    if _begin(connection, slot) is None:
        return None
    try:
        found = connection.execute(
            load_query("pgrepl.verify", "waiting"),
            {"slot": slot, "until": until, "limit": _MOST_CHANGES},
        ).fetchall()
    except (psycopg.errors.ObjectInUse, psycopg.DataError):
        return None
    # Afterwards: whatever another session took out of it meanwhile lies before.
    begin = _begin(connection, slot)
    if begin is None or sum(count for *_, count in found) >= _MOST_CHANGES:
        return None
    return begin, Waiting((schema, name) for schema, name, _ in found)


def _begin(connection: Connection, slot: str) -> Lsn | None:
    """Return where a slot begins; None when it is in use, or of another plugin."""
    found = read_slot(connection, slot)
    if found is None or found.is_active or not found.is_here or found.plugin != "wal2json":
        return None
    return found.confirmed_flush_lsn
