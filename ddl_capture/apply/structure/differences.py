"""Compare a table's structure on the source with the one on the target. Pure.

Expressions, types and keys come as the text that PostgreSQL prints for them. The source's get the
target's names by the parser, then both are parsed and printed alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pgrepl.ddl_capture.definition import Column, Constraint, Index, TableDefinition, TableName
from pgrepl.syntax.nodes import texts
from pgrepl.syntax.parse import (
    SqlSyntaxError,
    Tree,
    parse,
    parse_one,
    parse_relation,
    quoted_names,
    to_sql,
    walk,
)
from pgrepl.syntax.remap import RemapError, SchemaMap, remap

__all__ = [
    "Difference",
    "canonical_bound",
    "canonical_column",
    "canonical_constraint",
    "canonical_expression",
    "canonical_index",
    "canonical_type",
    "compare_tables",
    "is_referenced",
    "mapped_name",
    "there_of",
]

# How a text that PostgreSQL prints becomes a statement that can be parsed.
_EXPRESSION = "select {}"
_TYPE = "select null::{}"
_COLLATION = "select null::text collate {}"
_CONSTRAINT = "alter table x add {}"
_BOUND = "create table x partition of y {}"
_PARTITION_KEY = "create table x () partition by {}"
_STATEMENT = "{}"
#: The number of texts that are kept: each command on a table has all of that table's again.
_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same on both sides."""

    what: str
    source: str
    target: str
    #: Whether the target has it and the source has not.
    is_extra: bool = False

    def __str__(self) -> str:
        """Return both sides for a message."""
        return f"{self.what}: {self.source} on the source, {self.target} on the target"


def mapped_name(table: TableDefinition, names: SchemaMap) -> TableName:
    """Return where a table of the source is on the target."""
    return names.place(*table.key)


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
        Difference(
            what, mine.get(what, "nothing"), theirs.get(what, "nothing"), is_extra=what not in mine
        )
        for what in dict.fromkeys([*mine, *theirs])
        if mine.get(what) != theirs.get(what)
    ]


def canonical_constraint(constraint: Constraint, names: SchemaMap | None) -> str:
    """Return a constraint's definition the same way whichever side it comes from."""
    return _canonical(_CONSTRAINT, constraint.definition, names)


@lru_cache(maxsize=_KEPT)
def canonical_index(index: Index, names: SchemaMap | None) -> str:
    """Return an index's definition without its name and its storage options."""
    try:
        tree = parse_one(index.definition)
        if not tree.HasField("index_stmt"):
            return index.definition
        tree.index_stmt.idxname = ""
        tree.index_stmt.table_space = ""
        tree.index_stmt.ClearField("options")
        return _canonical(_STATEMENT, to_sql(tree), names)
    except SqlSyntaxError as exc:
        return f"{index.definition} ({exc})"


def there_of(
    tables: Sequence[TableName], names: SchemaMap | None, is_there: Callable[[TableName], bool]
) -> Sequence[TableName]:
    """Return those of some tables that the target has."""
    return [table for table in tables if _is_replicated(table, names, is_there)]


def is_referenced(
    constraint: Constraint, names: SchemaMap | None, is_there: Callable[[TableName], bool]
) -> bool:
    """Whether a constraint is no foreign key to a table that the target has not."""
    other = constraint.references
    return other is None or _is_replicated(other, names, is_there)


def _facts(
    table: TableDefinition, names: SchemaMap | None, is_there: Callable[[TableName], bool]
) -> dict[str, str]:
    """Return every fact of a table by its name, as text."""
    facts: dict[str, str] = {"kind": table.kind, "replica identity": table.replica_identity}
    # A partition is nothing without its parent.
    parents = table.parents if table.bound else there_of(table.parents, names, is_there)
    if parents:
        facts["parents"] = ", ".join(quoted_names(*_place(parent, names)) for parent in parents)
    if table.partition_key:
        facts["partition key"] = _canonical(_PARTITION_KEY, table.partition_key, names)
    if table.bound:
        facts["partition bound"] = _canonical(_BOUND, table.bound, names)
    # Rows are applied by the names of columns, so their order is no fact.
    for column in table.columns:
        facts[f'column "{column.name}"'] = canonical_column(column, names)
    for constraint in table.constraints:
        if is_referenced(constraint, names, is_there):
            text = canonical_constraint(constraint, names)
            facts[f'constraint "{constraint.name}"'] = text
    for index in table.unique_indexes:
        text = canonical_index(index, names)
        is_identity = " (replica identity)" if index.is_replica_identity else ""
        facts[f'unique index "{index.name}"'] = text + is_identity
    return facts


def _place(table: TableName, names: SchemaMap | None) -> TableName:
    return table if names is None else names.place(*table)


def _is_replicated(
    table: TableName, names: SchemaMap | None, is_there: Callable[[TableName], bool]
) -> bool:
    try:
        return is_there(_place(table, names))
    except RemapError:
        return False


def canonical_column(column: Column, names: SchemaMap | None) -> str:
    """Return all that is known of a column as one text."""
    parts: Sequence[str | None] = (
        canonical_type(column, names),
        "not null" if column.is_not_null else None,
        _clause("default", column.default, names),
        _clause("generated", column.generated, names),
        f"identity {column.identity}" if column.identity else None,
    )
    return " ".join(part for part in parts if part)


def canonical_type(column: Column, names: SchemaMap | None) -> str:
    """Return a column's type with its collation."""
    kind = _canonical(_TYPE, column.type, names)
    if column.collation is None:
        return kind
    return f"{kind} collate {_canonical(_COLLATION, column.collation, names)}"


def canonical_expression(text: str | None, names: SchemaMap | None) -> str | None:
    """Return an expression the same way whichever side it comes from."""
    return None if text is None else _canonical(_EXPRESSION, text, names)


def canonical_bound(text: str | None, names: SchemaMap | None) -> str | None:
    """Return the bounds of a partition the same way whichever side they come from."""
    return None if text is None else _canonical(_BOUND, text, names)


def _clause(word: str, text: str | None, names: SchemaMap | None) -> str | None:
    return None if text is None else f"{word} {canonical_expression(text, names)}"


@lru_cache(maxsize=_KEPT)
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
        schema, name = parse_relation(constant.sval)
        if schema:
            constant.sval = quoted_names(schema, name)
