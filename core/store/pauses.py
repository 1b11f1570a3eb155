"""The rows of ``replication.paused_source`` and ``pause_history``; a paused table is parked.

``pgrepl pause`` and ``pgrepl resume`` write them, replay and status read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row

from pgrepl.config.naming import TableSelection
from pgrepl.postgres.connect import Connection
from pgrepl.store.spool.spool_format import CHANNEL
from pgrepl.store.tables.roots import read_roots

__all__ = [
    "Pause",
    "PauseAction",
    "add_pause_history",
    "pause_source",
    "pause_table",
    "prune_pause_history",
    "read_pauses",
    "resume_source",
    "select_tables",
]

PauseAction = Literal["pause", "resume"]

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Pause:
    """Since when a source is paused, by whom, and why."""

    source_id: int
    paused_at: datetime
    paused_by: str
    reason: str | None


def read_pauses(connection: Connection) -> Mapping[int, Pause]:
    """Return the paused sources by their number."""
    with connection.cursor(row_factory=class_row(Pause)) as cursor:
        rows = cursor.execute(
            "select source_id, paused_at, paused_by, reason from replication.paused_source"
        )
        return {row.source_id: row for row in rows}


def pause_source(connection: Connection, source_id: int, who: str, reason: str | None) -> bool:
    """Pause a source; False when it is paused already."""
    done = connection.execute(
        "insert into replication.paused_source (source_id, paused_by, reason)"
        " values (%s, %s, %s) on conflict do nothing",
        (source_id, who, reason),
    )
    return done.rowcount == 1


def resume_source(connection: Connection, source_id: int) -> bool:
    """Let replay go on with a source, at once; False when it is not paused."""
    done = connection.execute(
        "delete from replication.paused_source where source_id = %s", (source_id,)
    )
    connection.execute("select pg_notify(%s, 'resume')", (CHANNEL,))
    return done.rowcount == 1


def pause_table(connection: Connection, source_id: int, name: _Name, reason: str) -> bool:
    """Park a table because a person says so; False when it is parked already."""
    done = connection.execute(
        "insert into replication.parked_table"
        " (source_id, schema_name, table_name, kind, reason)"
        " values (%s, %s, %s, 'paused', %s) on conflict do nothing",
        (source_id, *name, reason),
    )
    return done.rowcount == 1


def select_tables(
    connection: Connection, source_id: int, selection: TableSelection
) -> Sequence[_Name]:
    """Return the tables that patterns take in, a partition by its root's name or its own."""
    return [
        name
        for name, root in read_roots(connection, source_id).items()
        if selection.matches(*name) or selection.matches(*root)
    ]


def add_pause_history(
    connection: Connection,
    source: str,
    name: _Name | None,
    action: PauseAction,
    *,
    who: str,
    reason: str | None = None,
) -> None:
    """Record who paused or resumed what: a table, or a whole source."""
    connection.execute(
        "insert into replication.pause_history"
        " (source, schema_name, table_name, action, done_by, reason)"
        " values (%s, %s, %s, %s, %s, %s)",
        (source, *(name or (None, None)), action, who, reason),
    )


def prune_pause_history(connection: Connection, source: str, horizon: datetime) -> int:
    """Remove history that is older than this; return how many rows."""
    return connection.execute(
        "delete from replication.pause_history where source = %s and at < %s", (source, horizon)
    ).rowcount
