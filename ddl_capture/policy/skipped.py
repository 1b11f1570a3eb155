"""The rows of ``replication.skipped_code`` while DDL is applied, by names on the source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from postgast import pg_query_pb2

from pgrepl.ddl_capture.decode.event import DroppedObject
from pgrepl.ddl_capture.definition import TableName
from pgrepl.postgres.connect import Connection
from pgrepl.store.skipped_code import (
    forget_skipped_named,
    forget_skipped_of,
    read_skipped_of,
    rename_skipped_named,
    rename_skipped_of,
)
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["forget_dropped", "forget_others", "rename_skipped"]

_OBJECT = pg_query_pb2.ObjectType
#: What a table's structure shows, so that what is not there any more can be told.
_CONSTRAINTS = ("check", "exclusion constraint", "foreign key", "unique constraint")
_IN_STRUCTURE = (*_CONSTRAINTS, "default", "generated column")
_COLUMNS = ("default", "generated column")
#: Of what was dropped: the kinds that it may have been skipped as, and how many names come before
#: its own.
_DROPPED: Mapping[str, tuple[tuple[str, ...], int]] = {
    "domain constraint": (("domain check",), 2),
    "index": (("index",), 1),
    "statistics object": (("statistics",), 1),
    "table column": (_COLUMNS, 2),
    "table constraint": (_CONSTRAINTS, 2),
}
#: What was dropped with all that was skipped of it.
_WHOLE: Mapping[str, tuple[str, ...]] = {
    "type": ("domain check", "domain default", "range type"),
    "view": ("view",),
}


def forget_others(
    connection: Connection,
    source_id: int,
    table: TableName,
    present: Collection[tuple[str, str]],
) -> None:
    """Forget what was skipped of a table and its structure does not show any more."""
    for kind, name in read_skipped_of(connection, source_id, table):
        if kind in _IN_STRUCTURE and (kind, name) not in present:
            forget_skipped_of(connection, source_id, (kind,), table, name)


def forget_dropped(
    connection: Connection, source_id: int, dropped: Iterable[DroppedObject]
) -> None:
    """Forget what was skipped and does not exist on the source any more."""
    for item in dropped:
        if item.type in _WHOLE and len(item.names) > 1:
            forget_skipped_of(
                connection, source_id, _WHOLE[item.type], (item.names[0], item.names[1])
            )
        kinds, before = _DROPPED.get(item.type, ((), 0))
        if not kinds or len(item.names) <= before:
            continue
        if before == 1:
            forget_skipped_named(connection, source_id, kinds, item.names[0], item.names[1])
        else:
            table = item.names[0], item.names[1]
            forget_skipped_of(connection, source_id, kinds, table, item.names[2])


def rename_skipped(connection: Connection, source_id: int, tree: Tree) -> None:
    """Give what was skipped the name that a statement gives it; the tree has its schema."""
    kind, statement = statement_of(tree)
    if kind != "RenameStmt":
        return
    if statement.rename_type == _OBJECT.OBJECT_INDEX:
        rename_skipped_named(
            connection,
            source_id,
            ("index",),
            statement.relation.schemaname,
            statement.relation.relname,
            new_name=statement.newname,
        )
        return
    kinds = {
        _OBJECT.OBJECT_COLUMN: _COLUMNS,
        _OBJECT.OBJECT_TABCONSTRAINT: _CONSTRAINTS,
    }.get(statement.rename_type)
    if kinds is not None:
        rename_skipped_of(
            connection,
            source_id,
            kinds,
            (statement.relation.schemaname, statement.relation.relname),
            statement.subname,
            new_name=statement.newname,
        )
