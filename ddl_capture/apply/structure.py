"""Compare a table's structure on the source with the one on the target. Pure.

Expressions, types and keys come as the text that PostgreSQL prints for them. The source's get the
target's names by the parser, then both are parsed and printed alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pgrepl.ddl_capture.definition import Column, TableDefinition, TableName
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import SqlSyntaxError, Tree, parse, quoted_names, to_sql, walk
from pgrepl.syntax.remap import RemapError, SchemaMap, remap

__all__ = ["Difference", "compare_tables", "find_misnamed", "mapped_name"]

# How a text that PostgreSQL prints becomes a statement that can be parsed.
_EXPRESSION = "select {}"
_TYPE = "select null::{}"
_COLLATION = "select null::text collate {}"
_CONSTRAINT = "alter table x add {}"
_BOUND = "create table x partition of y {}"
_PARTITION_KEY = "create table x () partition by {}"
_STATEMENT = "{}"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same on both sides."""

    what: str
    source: str
    target: str

    def __str__(self) -> str:
        """Return both sides for a message."""
        return f"{self.what}: {self.source} on the source, {self.target} on the target"


def mapped_name(table: TableDefinition, names: SchemaMap) -> TableName:
    """Return where a table of the source is on the target."""
    return names.target_schema(table.schema), table.name


def compare_tables(
    source: TableDefinition,
    target: TableDefinition,
    names: SchemaMap,
    is_there: Callable[[TableName], bool],
) -> list[Difference]:
    """Return how the two differ; ``is_there`` tells which tables the target has.

    Plain indexes are the target's own affair, and so are foreign keys to tables that it lacks.
    """
    mine, theirs = _facts(source, names, is_there), _facts(target, None, is_there)
    return [
        Difference(what, mine.get(what, "nothing"), theirs.get(what, "nothing"))
        for what in dict.fromkeys([*mine, *theirs])
        if mine.get(what) != theirs.get(what)
    ]


def find_misnamed(
    source: TableDefinition, target: TableDefinition, names: SchemaMap
) -> list[tuple[str, str]]:
    """Return constraints that are the same but for their names: the target's, the source's.

    PostgreSQL chooses names that are free, and on the target more of them may be.
    """
    mine, theirs = _constraints(source, names), _constraints(target, None)
    unmet = {name: text for name, text in theirs.items() if mine.get(name) != text}
    found = []
    for name, text in mine.items():
        same = next((other for other, its in unmet.items() if its == text), None)
        if theirs.get(name) != text and same is not None:
            del unmet[same]
            found.append((same, name))
    return found


def _constraints(table: TableDefinition, names: SchemaMap | None) -> dict[str, str]:
    return {
        item.name: _canonical(_CONSTRAINT, item.definition, names) for item in table.constraints
    }


def _facts(
    table: TableDefinition, names: SchemaMap | None, is_there: Callable[[TableName], bool]
) -> dict[str, str]:
    """Return every fact of a table by its name, as text."""
    facts: dict[str, str] = {"kind": table.kind, "replica identity": table.replica_identity}
    if table.parents:
        facts["parents"] = ", ".join(
            quoted_names(_schema(schema, names), name) for schema, name in table.parents
        )
    if table.partition_key:
        facts["partition key"] = _canonical(_PARTITION_KEY, table.partition_key, names)
    if table.bound:
        facts["partition bound"] = _canonical(_BOUND, table.bound, names)
    facts["columns"] = ", ".join(column.name for column in table.columns)
    facts |= {f'column "{column.name}"': _column(column, names) for column in table.columns}
    for constraint in table.constraints:
        other = constraint.references
        if other is not None and not _is_replicated(other, names, is_there):
            continue
        text = _canonical(_CONSTRAINT, constraint.definition, names)
        facts[f'constraint "{constraint.name}"'] = text
    for index in table.unique_indexes:
        text = _canonical(_STATEMENT, index.definition, names)
        is_identity = " (replica identity)" if index.is_replica_identity else ""
        facts[f'unique index "{index.name}"'] = text + is_identity
    return facts


def _schema(schema: str, names: SchemaMap | None) -> str:
    return schema if names is None else names.target_schema(schema)


def _is_replicated(
    table: TableName, names: SchemaMap | None, is_there: Callable[[TableName], bool]
) -> bool:
    try:
        return is_there((_schema(table[0], names), table[1]))
    except RemapError:
        return False


def _column(column: Column, names: SchemaMap | None) -> str:
    parts: Sequence[str | None] = (
        _canonical(_TYPE, column.type, names),
        _clause("collate", _COLLATION, column.collation, names),
        "not null" if column.is_not_null else None,
        _clause("default", _EXPRESSION, column.default, names),
        _clause("generated", _EXPRESSION, column.generated, names),
        f"identity {column.identity}" if column.identity else None,
    )
    return " ".join(part for part in parts if part)


def _clause(word: str, form: str, text: str | None, names: SchemaMap | None) -> str | None:
    return None if text is None else f"{word} {_canonical(form, text, names)}"


def _canonical(form: str, text: str, names: SchemaMap | None) -> str:
    """Print a text the same way whichever side it comes from."""
    if "." not in text:
        return text
    try:
        (tree,) = parse(form.format(text))
        if names is not None:
            (tree,) = parse(remap(tree, names).sql)
        _quote_names(tree)
        return to_sql(tree)
    except (RemapError, SqlSyntaxError, ValueError) as exc:
        return f"{text} ({exc})"


def _quote_names(tree: Tree) -> None:
    """Quote the names in constants that stand for objects, which PostgreSQL does as needed."""
    for part in walk(tree):
        if part.DESCRIPTOR.name != "TypeCast" or not part.arg.HasField("a_const"):
            continue
        if texts(part.type_name.names)[-1:] != ["regclass"]:
            continue
        constant = part.arg.a_const.sval
        (statement,) = parse(f"select from {constant.sval}")
        relation = statement.select_stmt.from_clause[0].range_var
        if relation.schemaname:
            constant.sval = quoted_names(relation.schemaname, relation.relname)
