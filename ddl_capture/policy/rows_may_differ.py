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
_DROPS = frozenset({_AT.AT_DropColumn, _AT.AT_DropConstraint, _AT.AT_DropNotNull})
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
    """Whether a statement takes something away, and what is left of each row is as it was."""
    kind, statement = statement_of(tree)
    if kind == "DropStmt":
        return True
    return kind == "AlterTableStmt" and all(
        node.alter_table_cmd.subtype in _DROPS for node in statement.cmds
    )


def _is_numbered(column: Tree) -> bool:
    return texts(column.type_name.names)[-1] in _SERIAL or any(
        node.constraint.contype == _CON.CONSTR_IDENTITY for node in column.constraints
    )
