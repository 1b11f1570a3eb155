"""What a statement's text cannot reproduce: tables that have to be copied again. Pure.

Whether expressions give the same values here is asked of PostgreSQL: see ``screening``.
"""

from __future__ import annotations

from collections.abc import Sequence

from postgast import pg_query_pb2

from pgrepl.ddl_capture.decode.event import Rewrite
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["leaves_rows", "reason_to_resync"]

_AT = pg_query_pb2.AlterTableType
_CON = pg_query_pb2.ConstrType
#: What a statement does to a table and not to what is in it.
_BESIDE_ROWS = frozenset(
    {
        *(_AT.AT_DropColumn, _AT.AT_DropConstraint, _AT.AT_DropNotNull, _AT.AT_ClusterOn),
        *(_AT.AT_DropCluster, _AT.AT_SetStatistics, _AT.AT_SetStorage, _AT.AT_SetCompression),
        *(_AT.AT_SetOptions, _AT.AT_ResetOptions, _AT.AT_SetRelOptions, _AT.AT_ResetRelOptions),
    }
)
_BESIDE_TABLE = frozenset(
    {"AlterStatsStmt", "CommentStmt", "CreateStatsStmt", "DropStmt", "IndexStmt"}
)
_SERIAL = frozenset({"serial", "serial2", "serial4", "serial8", "bigserial", "smallserial"})


def reason_to_resync(tree: Tree, rewrites: Sequence[Rewrite]) -> str | None:
    """Return why the rows of the statement's table may differ from the source's after it."""
    kind, statement = statement_of(tree)
    if kind != "AlterTableStmt":
        return None
    if any(rewrite.is_persistence for rewrite in rewrites):
        return "it became logged or unlogged: what it held before is not in the WAL"
    for node in statement.cmds:
        command = node.alter_table_cmd
        column = getattr(command, "def").column_def
        if command.subtype == _AT.AT_AddColumn and _is_numbered(column):
            return f'column "{column.colname}" was added with values that only the source knows'
    return None


def leaves_rows(tree: Tree) -> bool:
    """Whether a statement that runs later than its turn leaves what a table holds as it is."""
    kind, statement = statement_of(tree)
    if kind == "RenameStmt":
        return bool(statement.rename_type == pg_query_pb2.ObjectType.OBJECT_INDEX)
    if kind == "AlterTableStmt":
        return all(node.alter_table_cmd.subtype in _BESIDE_ROWS for node in statement.cmds)
    return kind in _BESIDE_TABLE


def _is_numbered(column: Tree) -> bool:
    return texts(column.type_name.names)[-1] in _SERIAL or any(
        node.constraint.contype == _CON.CONSTR_IDENTITY for node in column.constraints
    )
