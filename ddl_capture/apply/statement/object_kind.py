"""``ALTER TABLE`` of what is no table: an index, a sequence, a view. Pure.

PostgreSQL takes the command for any of them, so the statement does not say what it is about; the
source's catalogue does.
"""

from __future__ import annotations

from collections.abc import Mapping

from postgast import pg_query_pb2

from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["correct_kind"]

_OBJECT = pg_query_pb2.ObjectType
_KINDS: Mapping[str, int] = {
    "foreign table": _OBJECT.OBJECT_FOREIGN_TABLE,
    "index": _OBJECT.OBJECT_INDEX,
    "materialized view": _OBJECT.OBJECT_MATVIEW,
    "sequence": _OBJECT.OBJECT_SEQUENCE,
    "view": _OBJECT.OBJECT_VIEW,
}


def correct_kind(tree: Tree, event: CapturedEvent) -> Tree:
    """Return the statement with the kind of object that the source says it is about."""
    kind, statement = statement_of(tree)
    if kind not in ("AlterObjectSchemaStmt", "AlterTableStmt", "RenameStmt"):
        return tree
    is_rename = kind == "RenameStmt"
    is_itself = is_rename and statement.rename_type == _OBJECT.OBJECT_TABLE
    name = statement.newname if is_itself else statement.relation.relname
    kinds = {
        _KINDS[item.type] for item in event.objects if item.name == name and item.type in _KINDS
    }
    if len(kinds) != 1 or any(table.name == name for table in event.tables):
        return tree
    (actual,) = kinds
    if is_rename and not is_itself:
        if statement.relation_type == _OBJECT.OBJECT_TABLE:
            statement.relation_type = actual
        return tree
    field = {
        "AlterObjectSchemaStmt": "object_type",
        "AlterTableStmt": "objtype",
        "RenameStmt": "rename_type",
    }[kind]
    if getattr(statement, field) == _OBJECT.OBJECT_TABLE:
        setattr(statement, field, actual)
    return tree
