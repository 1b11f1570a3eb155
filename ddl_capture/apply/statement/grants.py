"""Privileges on the source's own objects, one statement for each object and role. Pure.

PostgreSQL reports of a GRANT neither objects nor schemas, so the statement is all there is. What is
not replicated, and roles that are not what they are on the source, drop out of it one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from postgast import pg_query_pb2

from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import Tree

__all__ = ["split_grant"]

_OBJECT = pg_query_pb2.ObjectType
_ALL_IN_SCHEMA = pg_query_pb2.ACL_TARGET_ALL_IN_SCHEMA
#: "The one who runs this" is pgrepl here, and another role there.
_ROLES = frozenset({pg_query_pb2.ROLESPEC_CSTRING, pg_query_pb2.ROLESPEC_PUBLIC})


def split_grant(
    tree: Tree, find_schema: Callable[[str | None, str | None], str | None], own_role: str
) -> list[Tree]:
    """Return the parts of a GRANT or REVOKE that are about replicated objects.

    ``find_schema`` returns the source's schema in which an object is that has a schema and a name,
    or only one of them; None: not replicated. The role that applies keeps what it has.
    """
    statement = tree.grant_stmt
    is_schema = statement.objtype == _OBJECT.OBJECT_SCHEMA or statement.targtype == _ALL_IN_SCHEMA
    roles = [
        node
        for node in statement.grantees
        if node.role_spec.roletype in _ROLES and node.role_spec.rolename != own_role
    ]
    objects = list(_own(statement.objects, find_schema, is_schema=is_schema))
    return [_part(tree, item, role) for item in objects for role in roles]


def _own(
    nodes: Iterable[Tree],
    find_schema: Callable[[str | None, str | None], str | None],
    *,
    is_schema: bool,
) -> Iterator[Tree]:
    """Return the replicated ones of some objects, each with its schema."""
    for node in nodes:
        made = type(node).FromString(node.SerializeToString())
        if is_schema:
            if find_schema(made.string.sval, None) is not None:
                yield made
        elif made.HasField("range_var"):
            relation = made.range_var
            schema = find_schema(relation.schemaname or None, relation.relname)
            if schema is not None:
                relation.schemaname = schema
                yield made
        elif made.HasField("object_with_args") or made.HasField("list"):
            items = made.list.items if made.HasField("list") else made.object_with_args.objname
            *schemas, name = texts(items)
            schema = find_schema(schemas[-1] if schemas else None, name)
            if schema is not None:
                del items[:]
                for text in (schema, name):
                    items.add().string.sval = text
                yield made


def _part(tree: Tree, item: Tree, role: Tree) -> Tree:
    made = type(tree).FromString(tree.SerializeToString())
    for field, node in (("objects", item), ("grantees", role)):
        made.grant_stmt.ClearField(field)
        getattr(made.grant_stmt, field).add().CopyFrom(node)
    return made
