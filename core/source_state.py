"""The rows of ``replication.source``: what the target knows about each source.

Nothing but the target holds state. Whoever starts reads it here and goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from psycopg.rows import class_row

from pgrepl.lsn import Lsn
from pgrepl.postgres import Connection

__all__ = ["SourceRow", "SourceState", "find_source"]

SourceState = Literal["creating", "copying", "streaming"]


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source as the target knows it."""

    source_id: int
    name: str
    slot: str
    dbname: str
    system_identifier: int
    timeline: int
    state: SourceState
    consistent_point: Lsn | None


def find_source(connection: Connection, name: str) -> SourceRow | None:
    """Return the source of this name, or None when nothing of it was ever copied."""
    with connection.cursor(row_factory=class_row(SourceRow)) as cursor:
        return cursor.execute(
            "select source_id, name, slot, dbname, system_identifier, timeline, state,"
            " consistent_point from replication.source where name = %s",
            (name,),
        ).fetchone()
