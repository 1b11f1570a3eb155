"""Tables whose statement cannot run on the target, made of the structure that the source reported.

``CREATE TABLE AS`` and ``SELECT INTO`` may query what is not replicated, and ``LIKE`` may copy the
columns of it. The rows are in the stream; the columns are in the log. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pgrepl.ddl_capture.apply.structure.create_table import create_table
from pgrepl.ddl_capture.decode.event import CapturedEvent, decode_event
from pgrepl.ddl_capture.decode.filled import find_filled_table
from pgrepl.ddl_capture.decode.statement import UnknownStatementError
from pgrepl.ddl_capture.definition import TableDefinition
from pgrepl.syntax.parse import SqlSyntaxError, Tree, parse_one, to_sql, walk
from pgrepl.syntax.remap import SchemaMap
from pgrepl.syntax.statement_kinds import statement_of

__all__ = ["copied_relations", "create_filled", "find_filled"]


def find_filled(
    start: CapturedEvent, rows: Iterable[Mapping[str, str | None]]
) -> list[TableDefinition]:
    """Return what a command that is about to make a table will have made, nothing if it fails to.

    ``rows`` are those of the log in its transaction. The row of its end is the next one of the same
    place in the same text; a second beginning there says that the first one made nothing, as
    IF NOT EXISTS of a table that is there. The rows come under the name that the command gives,
    whatever an event trigger of the user gives the table before the command ends.
    """
    for row in rows:
        if row.get("kind") not in ("start", "end") or row.get("tag") != start.tag:
            continue
        event = decode_event(row)
        if event.log_id > start.log_id and _place(event) == _place(start):
            return _as_named(start, event.tables) if event.kind == "end" else []
    return []


def _as_named(start: CapturedEvent, tables: Sequence[TableDefinition]) -> list[TableDefinition]:
    """Return the table under the name that the command gives it."""
    try:
        schema, name = find_filled_table(start).name
    except (UnknownStatementError, SqlSyntaxError):
        return list(tables)
    if not schema or len(tables) != 1 or tables[0].key == (schema, name):
        return list(tables)
    return [replace(tables[0], schema=schema, name=name, root=(schema, name))]


def _place(event: CapturedEvent) -> tuple[object, ...]:
    return event.xid, event.query, event.context, event.ordinal


def create_filled(statement: Tree, table: TableDefinition, names: SchemaMap) -> list[str]:
    """Return the statements that make the table of a CREATE TABLE AS, with its options."""
    create = create_table(table, names)
    if not statement.into.options:
        return [create]
    tree = parse_one(create)
    tree.create_stmt.options.extend(statement.into.options)
    return [to_sql(tree)]


def copied_relations(tree: Tree) -> list[tuple[str | None, str]]:
    """Return the relations whose columns a CREATE TABLE … LIKE copies, by schema and name."""
    kind, statement = statement_of(tree)
    if kind != "CreateStmt":
        return []
    return [
        (part.relation.schemaname or None, part.relation.relname)
        for part in walk(statement)
        if part.DESCRIPTOR.name == "TableLikeClause"
    ]
