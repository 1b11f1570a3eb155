"""A table's statement, made of its structure. Pure.

For tables whose own text cannot run on the target, or that become replicated without a CREATE in
the stream: one that was unlogged, had another name, or was attached as a partition. Constraints,
indexes and parents come with what follows from the comparison.
"""

from __future__ import annotations

from pgrepl.ddl_capture.definition import Column, TableDefinition
from pgrepl.syntax.parse import SqlSyntaxError, parse_one, quoted_names
from pgrepl.syntax.remap import SchemaMap, remap

__all__ = ["column_clause", "create_table"]

_IDENTITY = {"a": "always", "d": "by default"}


def create_table(table: TableDefinition, names: SchemaMap) -> str:
    """Return the statement that makes the table with its columns on the target.

    Raises
    ------
    SqlSyntaxError
        when the structure that the source reported makes another statement than this.

    """
    columns = ", ".join(column_clause(column) for column in table.columns)
    key = f" partition by {table.partition_key}" if table.partition_key else ""
    sql = f"create table {quoted_names(*table.key)} ({columns}){key}"
    tree = parse_one(sql)
    if not tree.HasField("create_stmt"):
        message = "the structure that the source reported is not that of a table"
        raise SqlSyntaxError(message)
    return remap(tree, names, sql).sql


def column_clause(column: Column) -> str:
    """Return how a column stands in a CREATE TABLE."""
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
