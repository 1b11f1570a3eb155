"""Statements that may be about what a copy does not have, and are passed over then. Pure."""

from __future__ import annotations

from postgast import pg_query_pb2
from psycopg import errors

from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["FORGIVEN", "is_forgiving", "is_needless"]

_OBJECT = pg_query_pb2.ObjectType
# Plain indexes, types and sequences of no table; and roles that only the source has.
_FORGIVING = frozenset(
    {
        *("AlterCollationStmt", "AlterDomainStmt", "AlterEnumStmt", "AlterSeqStmt"),
        *("AlterStatsStmt", "CommentStmt", "GrantStmt"),
    }
)
#: No row has a value of them before a table has, which then waits for what is missing.
_TYPES = frozenset({"CompositeTypeStmt", "CreateDomainStmt", "CreateRangeStmt"})
FORGIVEN = (
    errors.UndefinedTable,
    errors.UndefinedObject,
    errors.UndefinedFunction,
    errors.InvalidSchemaName,
)


def is_forgiving(tree: Tree) -> bool:
    """Whether a statement whose subject is not on the target does no harm."""
    kind, statement = statement_of(tree)
    if kind == "RenameStmt":
        what = statement.rename_type
        if what == _OBJECT.OBJECT_COLUMN:
            what = statement.relation_type
        return bool(what != _OBJECT.OBJECT_TABLE)
    if kind == "AlterObjectSchemaStmt":
        return bool(statement.object_type != _OBJECT.OBJECT_TABLE)
    if kind == "AlterTableStmt":
        return bool(statement.objtype != _OBJECT.OBJECT_TABLE)
    return kind in _FORGIVING


def is_needless(tree: Tree | None, error: Exception) -> bool:
    """Whether a statement that failed makes a type of what the target has not: base types, say."""
    if tree is None or not isinstance(error, errors.UndefinedObject):
        return False
    kind, _ = statement_of(tree)
    return kind in _TYPES
