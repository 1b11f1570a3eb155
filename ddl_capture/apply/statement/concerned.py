"""Which tables of the source a command concerns, by their names before and after it. Pure.

A command that cannot be applied waits with these tables, and one on a table that waits waits too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from postgast import pg_query_pb2

from pgrepl.ddl_capture.apply.statement.subject import altered_tables, renamed_schema
from pgrepl.ddl_capture.decode.event import CapturedEvent, DroppedObject
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.syntax.parse import Tree

__all__ = ["Concern", "find_concern"]

_OBJECT = pg_query_pb2.ObjectType
#: What belongs to a table and is called after it.
_PARTS = frozenset({"policy", "rule", "table", "table column", "table constraint", "trigger"})


@dataclass(frozen=True, slots=True)
class Concern:
    """What a command is about."""

    #: The tables that wait when it cannot be applied.
    tables: frozenset[TableName]
    #: Those that it is not about and that it builds on.
    parents: frozenset[TableName]
    #: Those that are no more after it.
    dropped: frozenset[TableName]


def find_concern(
    event: CapturedEvent,
    tree: Tree | None,
    tables: Sequence[TableDefinition],
    dropped: Iterable[DroppedObject],
    known: Collection[TableName],
) -> Concern:
    """Return what a command is about; ``known`` are the tables that are replicated or parked.

    ``tables`` are those of its tables that the patterns match, as they are after it.
    """
    dropped = list(dropped)
    found = {table.key for table in tables} | {
        (item.names[0], item.names[1])
        for item in dropped
        if item.type in _PARTS and len(item.names) > 1
    }
    found |= set(_named(tree, event, known)) if tree is not None else set()
    parents = {parent for table in tables for parent in (*table.parents, table.root)} - found
    gone = {
        (item.names[0], item.names[1])
        for item in dropped
        if item.type == "table" and len(item.names) > 1
    }
    selected = {table.key for table in tables}
    return Concern(
        frozenset(name for name in found if name in known or name in selected),
        frozenset(parents),
        frozenset(gone),
    )


def _named(tree: Tree, event: CapturedEvent, known: Collection[TableName]) -> Iterable[TableName]:
    """Yield the known tables that a statement names, as they were called before it."""
    for schema, name in altered_tables(tree):
        for place in [schema] if schema else event.path:
            if (place, name) in known:
                yield place, name
                break
    renamed = renamed_schema(tree)
    if renamed is not None:
        old, new = renamed
        for _, name in (table for table in known if table[0] == old):
            yield old, name
            yield new, name
