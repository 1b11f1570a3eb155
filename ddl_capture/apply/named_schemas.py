"""Which schemas of the source a command names, and which it puts something into. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgrepl.ddl_capture.apply.statement.adapt import mentioned_schemas
from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.ddl_capture.definition import TableDefinition
from pgrepl.syntax.parse import Tree
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["filled_schemas", "named_schemas"]


def named_schemas(
    event: CapturedEvent, tables: Iterable[TableDefinition], tree: Tree | None
) -> set[str]:
    """Return the schemas of a command: of its text, of its search path, of what it is about."""
    schemas = set(event.path) | {table.schema for table in tables}
    schemas |= set() if tree is None else mentioned_schemas(tree)
    for item in event.objects:
        if item.schema is not None:
            schemas.add(item.schema)
        if item.type == "schema" and item.name:
            schemas.add(item.name)
    return schemas


def filled_schemas(event: CapturedEvent, statements: Sequence[Tree]) -> list[str]:
    """Return the schemas that a command puts something into, but those that it makes itself."""
    made = {
        statement.schemaname
        for kind, statement in map(statement_of, statements)
        if kind == "CreateSchemaStmt"
    }
    return sorted({item.schema for item in event.objects if item.schema} - made)
