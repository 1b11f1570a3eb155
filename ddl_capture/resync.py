"""What a statement's text cannot reproduce: tables that have to be copied again. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from postgast import pg_query_pb2

from pgrepl.ddl_capture.event import Rewrite
from pgrepl.ddl_capture.expressions import TargetFunction, is_repeatable
from pgrepl.ddl_capture.tags import statement_of
from pgrepl.remap_nodes import texts
from pgrepl.syntax import Tree, walk

__all__ = ["reason_to_resync"]

_AT = pg_query_pb2.AlterTableType
_CON = pg_query_pb2.ConstrType
_SERIAL = frozenset({"serial", "serial2", "serial4", "serial8", "bigserial", "smallserial"})
#: Their conversions depend on the session's time zone, date style or currency.
_BY_SESSION = frozenset({"date", "interval", "money", "time", "timestamp", "timestamptz", "timetz"})


def reason_to_resync(
    tree: Tree,
    rewrites: Sequence[Rewrite],
    functions: Sequence[TargetFunction],
    old_types: Mapping[str, str],
) -> str | None:
    """Return why the rows of the statement's table may differ from the source's after it.

    ``old_types`` are the types that the table's columns had before.
    """
    kind, statement = statement_of(tree)
    if kind != "AlterTableStmt":
        return None
    if any(rewrite.is_persistence for rewrite in rewrites):
        return "it became logged or unlogged: what it held before is not in the WAL"
    for node in statement.cmds:
        reason = _reason(node.alter_table_cmd, functions, old_types)
        if reason is not None and (rewrites or node.alter_table_cmd.subtype == _AT.AT_AddColumn):
            return reason
    return None


def _reason(
    command: Tree, functions: Sequence[TargetFunction], old_types: Mapping[str, str]
) -> str | None:
    column = getattr(command, "def").column_def
    if command.subtype == _AT.AT_AddColumn:
        if _is_filled_by_chance(column, functions):
            return f'column "{column.colname}" was added with values that only the source knows'
    elif command.subtype == _AT.AT_AlterColumnType:
        types = [
            texts(part.names)[-1]
            for part in walk(column)
            if part.DESCRIPTOR.name == "TypeName" and part.names
        ]
        # PostgreSQL prints "timestamp with time zone" and "time(3) without time zone".
        types.append(old_types.get(command.name, "").partition(" ")[0].partition("(")[0])
        if not _BY_SESSION.isdisjoint(types) or not is_repeatable(column, functions):
            return f'column "{command.name}" was converted in a way that depends on the session'
    return None


def _is_filled_by_chance(column: Tree, functions: Sequence[TargetFunction]) -> bool:
    if texts(column.type_name.names)[-1] in _SERIAL:
        return True
    for node in column.constraints:
        constraint = node.constraint
        if constraint.contype == _CON.CONSTR_IDENTITY:
            return True
        if constraint.contype == _CON.CONSTR_DEFAULT and not is_repeatable(
            constraint.raw_expr, functions
        ):
            return True
    return False
