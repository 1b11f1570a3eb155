"""Which statements fire event triggers, and under which command tag. Pure.

After PostgreSQL's ``CreateCommandTag`` and ``ProcessUtilitySlow``. What is in neither table fires
none: queries, transaction control, roles, databases, settings, COPY, VACUUM and the like.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from postgast import pg_query_pb2

from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import (
    OBJECT_KINDS,
    STATEMENT_KINDS,
    object_type_of,
    statement_of,
)

__all__ = ["command_tag"]

_OBJECT = pg_query_pb2.ObjectType

#: Objects of the whole cluster, whose statements fire nothing.
_SHARED = frozenset(
    {
        _OBJECT.OBJECT_DATABASE,
        _OBJECT.OBJECT_EVENT_TRIGGER,
        _OBJECT.OBJECT_PARAMETER_ACL,
        _OBJECT.OBJECT_ROLE,
        _OBJECT.OBJECT_TABLESPACE,
    }
)


def command_tag(tree: Tree) -> str | None:
    """Return the tag of a statement that fires event triggers; None when it fires none."""
    kind, statement = statement_of(tree)
    if kind in _OTHERS:
        return _OTHERS[kind](statement)
    known = STATEMENT_KINDS.get(kind)
    if known is None or (known.tag is None and known.verb is None):
        return None
    if known.object_type is None:
        return known.tag
    about = object_type_of(kind, statement)
    if known.verb is None:
        return None if about in _SHARED else known.tag
    return f"{known.verb} {OBJECT_KINDS[about].tag}" if about in OBJECT_KINDS else None


def _create_as(statement: Tree) -> str:
    if statement.objtype == _OBJECT.OBJECT_MATVIEW:
        return "CREATE MATERIALIZED VIEW"
    return "SELECT INTO" if statement.is_select_into else "CREATE TABLE AS"


def _grant(statement: Tree) -> str | None:
    if statement.objtype in _SHARED:
        return None
    return "GRANT" if statement.is_grant else "REVOKE"


_OTHERS: Mapping[str, Callable[[Tree], str | None]] = {
    "CreateFunctionStmt": lambda s: "CREATE PROCEDURE" if s.is_procedure else "CREATE FUNCTION",
    "CreateTableAsStmt": _create_as,
    "GrantStmt": _grant,
    "SelectStmt": lambda s: "SELECT INTO" if s.HasField("into_clause") else None,
}
