"""What is noted of relations of a source that the target has not: it goes with them.

wal2json prints the rows of materialized views, and one that was dropped on the source before its
rows arrived cannot be told from a table that was never copied. Of tables that were made unseen, or
could not be made, it is noted that they have changes, or lost some.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgrepl.config.naming import is_system_schema, shown_name
from pgrepl.ddl_capture.apply.workspace import Workspace
from pgrepl.ddl_capture.decode.event import CapturedEvent, DroppedObject
from pgrepl.ddl_capture.definition import TableName
from pgrepl.syntax.parse import parse_relation

__all__ = ["find_moved_away", "find_replaced", "forget_tables", "forget_views"]

_VIEW = "materialized view"
#: How PostgreSQL calls the rule that makes a table a view, up to 15.
_RETURN = '"_RETURN" on '


def find_replaced(event: CapturedEvent) -> Sequence[DroppedObject]:
    """Return the tables that a rule made views of: there are no such tables any more."""
    return [
        DroppedObject("table", schema, (schema, name), identity, is_original=True)
        for item in event.objects
        if item.type == "rule" and item.identity.startswith(_RETURN)
        for identity in [item.identity.removeprefix(_RETURN)]
        for schema, name in [parse_relation(identity)]
    ]


def find_moved_away(target: Workspace) -> Sequence[DroppedObject]:
    """Return the tables that a command moved into a schema of PostgreSQL's own.

    No such schema is there for them on the target, where it is that of all sources.
    """
    moved = {table.oid for table in target.event.tables if is_system_schema(table.schema)}
    if not moved:
        return ()
    return [
        DroppedObject("table", name[0], name, shown_name(*name), is_original=True)
        for name, oid in target.source_oids().items()
        if oid in moved
    ]


def forget_views(target: Workspace, dropped: Iterable[DroppedObject]) -> None:
    """Forget the materialized views that a command made, altered or dropped."""
    touched = {(item.schema, item.name) for item in target.event.objects if item.type == _VIEW}
    for schema, name in touched | _of_kind(dropped, _VIEW):
        if schema and name:
            target.forget((schema, name))


def forget_tables(target: Workspace, dropped: Iterable[DroppedObject]) -> None:
    """Forget the tables that a command dropped on the source, and that no copy has."""
    gone = _of_kind(dropped, "table")
    there = {(item.schema, item.name) for item in target.relations()} if gone else set()
    for key in sorted(gone):
        if (target.names.schemas.get(key[0], ""), key[1]) not in there:
            target.forget_unknown(key)


def _of_kind(dropped: Iterable[DroppedObject], kind: str) -> set[TableName]:
    found = (item.names for item in dropped if item.type == kind and len(item.names) > 1)
    return {(names[0], names[1]) for names in found}
