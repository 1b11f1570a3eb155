"""A table's statements, made of its structure. Pure.

For tables that become replicated without a CREATE in the stream: one that was unlogged, had another
name, or was attached as a partition. Plain indexes, as in a copy, are left to the target.
"""

from __future__ import annotations

from postgast import pg_query_pb2

from pgrepl.ddl_capture.definition import Column, TableDefinition
from pgrepl.syntax.parse import SqlSyntaxError, Tree, parse_one, quoted_names
from pgrepl.syntax.remap import SchemaMap, remap

__all__ = ["create_table"]

_IDENTITY = {"a": "always", "d": "by default"}
_KEYS = ("p", "u", "x")
_AT = pg_query_pb2.AlterTableType
_ADDED = frozenset({_AT.AT_AddConstraint, _AT.AT_AttachPartition, _AT.AT_ReplicaIdentity})


def create_table(table: TableDefinition, names: SchemaMap) -> list[str]:
    """Return the statements that make the table on the target.

    Raises
    ------
    SqlSyntaxError
        when the structure that the source reported makes other statements than these.

    """
    name = quoted_names(*table.key)
    statements = [_create(name, table)]
    key_names = set()
    for constraint in table.constraints:
        if constraint.type in _KEYS:
            key_names.add(constraint.name)
            added = f"{quoted_names(constraint.name)} {constraint.definition}"
            statements.append(f"alter table {name} add constraint {added}")
    statements += [
        index.definition for index in table.unique_indexes if index.name not in key_names
    ]
    if table.bound:
        parent = quoted_names(*table.parents[0])
        statements.append(f"alter table {parent} attach partition {name} {table.bound}")
    identity = _identity(table)
    if identity:
        statements.append(f"alter table {name} replica identity {identity}")
    remapped = []
    for sql in statements:
        tree = parse_one(sql)
        if not (_is_create(tree) if sql is statements[0] else _is_addition(tree)):
            message = "the structure that the source reported is not that of a table"
            raise SqlSyntaxError(message)
        remapped.append(remap(tree, names).sql)
    return remapped


def _is_create(tree: Tree) -> bool:
    return bool(tree.HasField("create_stmt"))


def _is_addition(tree: Tree) -> bool:
    commands = tree.alter_table_stmt.cmds
    return bool(tree.HasField("index_stmt")) or (
        len(commands) == 1 and commands[0].alter_table_cmd.subtype in _ADDED
    )


def _create(name: str, table: TableDefinition) -> str:
    parts = [_column(column) for column in table.columns]
    parts += [
        f"constraint {quoted_names(item.name)} {item.definition}"
        for item in table.constraints
        if item.type == "c"
    ]
    key = f" partition by {table.partition_key}" if table.partition_key else ""
    parents = () if table.bound else table.parents
    inherits = ", ".join(quoted_names(*parent) for parent in parents)
    return f"create table {name} ({', '.join(parts)})" + (
        f" inherits ({inherits})" if inherits else key
    )


def _column(column: Column) -> str:
    parts = [quoted_names(column.name), column.type]
    if column.collation:
        parts.append(f"collate {column.collation}")
    if column.generated is not None:
        parts.append(f"generated always as ({column.generated}) stored")
    elif column.identity:
        parts.append(f"generated {_IDENTITY[column.identity]} as identity")
    elif column.default is not None:
        parts.append(f"default {column.default}")
    if column.is_not_null:
        name = column.not_null_name
        parts.append(f"constraint {quoted_names(name)} not null" if name else "not null")
    return " ".join(parts)


def _identity(table: TableDefinition) -> str | None:
    if table.replica_identity == "f":
        return "full"
    if table.replica_identity == "n":
        return "nothing"
    if table.replica_identity == "i":
        for index in table.unique_indexes:
            if index.is_replica_identity:
                return f"using index {quoted_names(index.name)}"
    return None
