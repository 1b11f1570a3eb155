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
    move_skipped,
    move_skipped_schema,
    read_skipped_of,
    rename_skipped_named,
    rename_skipped_of,
)
from pgrepl.syntax.nodes import texts
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
#: What has a name of its own in its schema; what belongs to something else; what has others.
_NAMED: Mapping[int, tuple[str, ...]] = {
    _OBJECT.OBJECT_INDEX: ("index",),
    _OBJECT.OBJECT_STATISTIC_EXT: ("statistics",),
}
_OF_OTHERS: Mapping[int, tuple[str, ...]] = {
    _OBJECT.OBJECT_COLUMN: _COLUMNS,
    _OBJECT.OBJECT_DOMCONSTRAINT: ("domain check",),
    _OBJECT.OBJECT_TABCONSTRAINT: _CONSTRAINTS,
}
_MOVED: Mapping[int, tuple[str, ...]] = {
    _OBJECT.OBJECT_DOMAIN: _WHOLE["type"],
    _OBJECT.OBJECT_TYPE: _WHOLE["type"],
    _OBJECT.OBJECT_VIEW: _WHOLE["view"],
}


def forget_others(
    connection: Connection,
    source_id: int,
    table: TableName,
    present: Collection[tuple[str, str]],
) -> frozenset[tuple[str, str]]:
    """Forget what was skipped of a table and its structure does not show any more.

    Returned is what is left.
    """
    skipped = read_skipped_of(connection, source_id, table)
    gone = {item for item in skipped if item[0] in _IN_STRUCTURE and item not in present}
    for kind, name in gone:
        forget_skipped_of(connection, source_id, (kind,), table, name)
    return skipped - gone


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


def rename_skipped(connection: Connection, source_id: int, tree: Tree, schema: str | None) -> None:
    """Give what was skipped the name or schema that a statement gives it.

    ``schema`` is that of the statement's subject where the statement does not say it.
    """
    kind, statement = statement_of(tree)
    if kind == "AlterObjectSchemaStmt" and statement.object_type in _MOVED:
        was = _subject(statement, schema)
        if was is not None:
            kinds = _MOVED[statement.object_type]
            move_skipped(connection, source_id, kinds, was, (statement.newschema, was[1]))
    elif kind == "RenameStmt":
        _rename(connection, source_id, statement, schema)


def _rename(connection: Connection, source_id: int, statement: Tree, schema: str | None) -> None:
    what, new_name = statement.rename_type, statement.newname
    if what == _OBJECT.OBJECT_SCHEMA:
        move_skipped_schema(connection, source_id, statement.subname, new_name)
        return
    was = _subject(statement, schema)
    if was is None:
        return
    if what in _NAMED:
        rename_skipped_named(connection, source_id, _NAMED[what], *was, new_name=new_name)
    elif what in _OF_OTHERS:
        kinds = _OF_OTHERS[what]
        rename_skipped_of(connection, source_id, kinds, was, statement.subname, new_name=new_name)
    elif what in _MOVED:
        move_skipped(connection, source_id, _MOVED[what], was, (was[0], new_name))


def _subject(statement: Tree, schema: str | None) -> TableName | None:
    """Return schema and name of what a statement renames or moves, or of what that belongs to."""
    if statement.HasField("relation") and statement.relation.relname:
        place, name = statement.relation.schemaname, statement.relation.relname
    elif statement.object.HasField("list"):
        *places, name = texts(statement.object.list.items)
        place = places[-1] if places else ""
    elif statement.object.HasField("type_name"):
        *places, name = texts(statement.object.type_name.names)
        place = places[-1] if places else ""
    else:
        return None
    where = place or schema
    return (str(where), str(name)) if where else None
