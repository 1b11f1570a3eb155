"""What a slot that nobody reads still holds: the tables whose changes the target lacks.

Without a receiver no position of the source is ever passed, because every server writes WAL now and
then. What counts is whether there are changes in it, and of which tables. The slot is only looked
into: nothing is taken out of it.
"""

from __future__ import annotations

from typing import NamedTuple

import psycopg

from pgrepl.catalog.slots import read_slot
from pgrepl.decoding.pgoutput.stream import publication_names
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.spool.spool_format import DDL_TABLE

__all__ = ["TableName", "Waiting", "read_waiting"]

TableName = tuple[str, str]
#: The most messages that are looked at; what follows more of them is not known.
_MOST_CHANGES = 100_000
_PLUGINS = ("wal2json", "pgoutput")


class _Slot(NamedTuple):
    plugin: str
    begin: Lsn


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
    state = _find(connection, slot)
    if state is None:
        return None
    publications = ",".join(f'"{name}"' for name in publication_names(slot))
    try:
        found = connection.execute(
            load_query("pgrepl.verify", f"waiting_{state.plugin}"),
            {"slot": slot, "until": until, "limit": _MOST_CHANGES, "publications": publications},
        ).fetchall()
    except (psycopg.errors.ObjectInUse, psycopg.errors.UndefinedObject, psycopg.DataError):
        return None
    # Afterwards: whatever another session took out of it meanwhile lies before.
    state = _find(connection, slot)
    # Beginnings and ends of transactions are counted by the server too.
    if state is None or found[0][-1] >= _MOST_CHANGES:
        return None
    return state.begin, Waiting((schema, name) for schema, name, _ in found if schema is not None)


def _find(connection: Connection, slot: str) -> _Slot | None:
    """Return the state of a slot; None when it is in use, or of another plugin."""
    found = read_slot(connection, slot)
    if found is None or found.is_active or not found.is_here or found.plugin not in _PLUGINS:
        return None
    begin = found.confirmed_flush_lsn
    return None if begin is None else _Slot(str(found.plugin), begin)
