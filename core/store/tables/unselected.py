"""Replicated tables that the patterns of their source do not take in any more.

Whoever receives passes over their changes. Their copies stay as they were; taken in again, they
have lost what came meanwhile, which the mark says that they get when a receiver starts.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.config.naming import TableSelection
from pgrepl.postgres.connect import Connection
from pgrepl.store.tables.roots import read_roots
from pgrepl.store.tables.table_marks import mark_changed

__all__ = ["UNSELECTED", "find_unselected", "mark_unselected"]

#: Why such a table needs a resync if it is taken in again.
UNSELECTED = (
    "the patterns that pgrepl receive ran with do not take it in: its copy stays as it was, and"
    " its changes are passed over"
)


def find_unselected(
    connection: Connection, source_id: int, selection: TableSelection
) -> Sequence[tuple[str, str]]:
    """Return the replicated tables of a source that patterns do not take in."""
    roots = read_roots(connection, source_id)
    return [name for name, root in roots.items() if not selection.matches(*root)]


def mark_unselected(connection: Connection, source_id: int, selection: TableSelection) -> None:
    """Mark the tables whose changes are passed over by whoever receives with these patterns."""
    for name in find_unselected(connection, source_id, selection):
        mark_changed(connection, source_id, name, UNSELECTED)
