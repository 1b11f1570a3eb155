"""The rows of ``replication.skipped_code`` while DDL is applied, by names on the source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from postgast import pg_query_pb2

from pgrepl.ddl_capture.decode.event import DroppedObject
from pgrepl.ddl_capture.definition import TableName
from pgrepl.postgres.connect import Connection
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["forget_dropped", "forget_others", "read_skipped_of", "rename_skipped"]

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


def read_skipped_of(
    connection: Connection, source_id: int, table: TableName
) -> frozenset[tuple[str, str]]:
    """Return what was skipped of a table, by kind and name."""
    rows = connection.execute(
        "select kind, name::text from replication.skipped_code"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *table),
    )
    return frozenset((str(kind), str(name)) for kind, name in rows)


def forget_others(
    connection: Connection,
    source_id: int,
    table: TableName,
    present: Collection[tuple[str, str]],
) -> None:
    """Forget what was skipped of a table and its structure does not show any more."""
    for kind, name in read_skipped_of(connection, source_id, table):
        if kind in _IN_STRUCTURE and (kind, name) not in present:
            _forget(connection, source_id, (kind,), table, name)


def forget_dropped(
    connection: Connection, source_id: int, dropped: Iterable[DroppedObject]
) -> None:
    """Forget what was skipped and does not exist on the source any more."""
    for item in dropped:
        if item.type in _WHOLE and len(item.names) > 1:
            connection.execute(
                "delete from replication.skipped_code where source_id = %s and kind = any (%s)"
                " and schema_name = %s and table_name = %s",
                (source_id, list(_WHOLE[item.type]), *item.names[:2]),
            )
        kinds, before = _DROPPED.get(item.type, ((), 0))
        if not kinds or len(item.names) <= before:
            continue
        if before == 1:
            connection.execute(
                "delete from replication.skipped_code where source_id = %s and kind = any (%s)"
                " and schema_name = %s and name = %s",
                (source_id, list(kinds), *item.names[:2]),
            )
        else:
            _forget(connection, source_id, kinds, (item.names[0], item.names[1]), item.names[2])


def rename_skipped(connection: Connection, source_id: int, tree: Tree) -> None:
    """Give what was skipped the name that a statement gives it; the tree has its schema."""
    kind, statement = statement_of(tree)
    if kind != "RenameStmt":
        return
    if statement.rename_type == _OBJECT.OBJECT_INDEX:
        connection.execute(
            "update replication.skipped_code set name = %s"
            " where source_id = %s and kind = 'index' and schema_name = %s and name = %s",
            (
                statement.newname,
                source_id,
                statement.relation.schemaname,
                statement.relation.relname,
            ),
        )
        return
    kinds = {
        _OBJECT.OBJECT_COLUMN: _COLUMNS,
        _OBJECT.OBJECT_TABCONSTRAINT: _CONSTRAINTS,
    }.get(statement.rename_type)
    if kinds is not None:
        connection.execute(
            "update replication.skipped_code set name = %s where source_id = %s"
            " and kind = any (%s) and schema_name = %s and table_name = %s and name = %s",
            (
                *(statement.newname, source_id, list(kinds), statement.relation.schemaname),
                *(statement.relation.relname, statement.subname),
            ),
        )


def _forget(
    connection: Connection, source_id: int, kinds: Iterable[str], table: TableName, name: str
) -> None:
    connection.execute(
        "delete from replication.skipped_code where source_id = %s and kind = any (%s)"
        " and schema_name = %s and table_name = %s and name = %s",
        (source_id, list(kinds), *table, name),
    )
