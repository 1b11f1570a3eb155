"""One statement on the way to the source's structure, checked to be what it should be. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from postgast import pg_query_pb2

from pgrepl.ddl_capture.apply.structure.differences import canonical_bound
from pgrepl.ddl_capture.definition import TableDefinition, TableName
from pgrepl.syntax.parse import SqlSyntaxError, Tree, parse_one, quoted_names
from pgrepl.syntax.remap import SchemaMap, remap

__all__ = ["Needless", "Step", "Table", "alter", "checked"]

_AT = pg_query_pb2.AlterTableType
_OBJECT = pg_query_pb2.ObjectType


@dataclass(frozen=True, slots=True)
class Needless:
    """Something of a table that a copy can do without, as ``replication.skipped_code`` names it."""

    kind: str
    name: str
    definition: str


@dataclass(frozen=True, slots=True)
class Step:
    """A statement with the target's names."""

    sql: str
    #: What it makes, where a copy can do without that.
    needless: Needless | None = None
    #: Whether rows that are there lack values after it, and have to be copied.
    is_void: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is to be and as it is, and the way from one's names to the other's."""

    source: TableDefinition
    target: TableDefinition
    names: SchemaMap

    @property
    def name(self) -> str:
        """The table's name on the source, quoted."""
        return quoted_names(*self.source.key)

    def has_same_bound(self) -> bool:
        """Whether the partition's bounds are the same."""
        return canonical_bound(self.source.bound, self.names) == canonical_bound(
            self.target.bound, None
        )


def alter(
    table: Table,
    action: str,
    subtype: str,
    needless: Needless | None = None,
    *,
    is_void: bool = False,
) -> Step:
    """Return an ALTER of the table with one action."""
    sql = f"alter table {table.name} {action}"
    return checked(table, sql, subtype, needless=needless, is_void=is_void)


def checked(
    table: Table,
    sql: str,
    shape: str,
    *,
    relation: TableName | None = None,
    needless: Needless | None = None,
    is_void: bool = False,
) -> Step:
    """Return a statement, in the source's names so far, that has the shape it should have.

    Raises
    ------
    SqlSyntaxError
        when a text of the source made something else of it.

    """
    tree = parse_one(sql)
    if not _has_shape(tree, shape, relation or table.source.key):
        message = "the structure that the source reported is not that of a table"
        raise SqlSyntaxError(message)
    return Step(remap(tree, table.names, sql).sql, needless, is_void)


def _has_shape(tree: Tree, shape: str, relation: TableName) -> bool:
    if shape == "unique index":
        statement = tree.index_stmt
        return bool(
            tree.HasField("index_stmt")
            and statement.unique
            and (statement.relation.schemaname, statement.relation.relname) == relation
        )
    if shape == "index":
        return bool(
            tree.HasField("drop_stmt")
            and tree.drop_stmt.remove_type == _OBJECT.OBJECT_INDEX
            and len(tree.drop_stmt.objects) == 1
        )
    if shape == "rename":
        return bool(tree.HasField("rename_stmt"))
    statement = tree.alter_table_stmt
    return bool(
        tree.HasField("alter_table_stmt")
        and (statement.relation.schemaname, statement.relation.relname) == relation
        and [node.alter_table_cmd.subtype for node in statement.cmds] == [_AT.Value(shape)]
    )
