"""Tables as the target has them: without the columns that rules omit. Pure.

The source reports a table as it is there. What names an omitted column goes with it, as it does
when PostgreSQL drops one; and so do foreign keys to a table that lacks rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from pgrepl.config.rules import Rules
from pgrepl.ddl_capture.definition import TableDefinition
from pgrepl.syntax.omitted import Lacking, names_column
from pgrepl.syntax.parse import SqlSyntaxError, parse_one

__all__ = ["find_needed_columns", "on_target"]


def on_target(table: TableDefinition, rules: Rules) -> TableDefinition:
    """Return a table without the columns that are omitted, and without what names them."""
    if not rules.changes_structure:
        return table
    omitted = rules.omitted(*table.key)
    lacking = Lacking(rules.omitted, rules.is_filtered)

    def is_kept(statement: str) -> bool:
        return not _names_column(statement, omitted, lacking)

    return replace(
        table,
        columns=[column for column in table.columns if column.name not in omitted],
        constraints=[
            item for item in table.constraints if is_kept(f"alter table x add {item.definition}")
        ],
        unique_indexes=[item for item in table.unique_indexes if is_kept(item.definition)],
    )


def _names_column(statement: str, omitted: Collection[str], lacking: Lacking | None = None) -> bool:
    try:
        return names_column(parse_one(statement), omitted, lacking)
    except SqlSyntaxError:
        # It shows as a difference.
        return False


def find_needed_columns(table: TableDefinition, rules: Rules) -> Iterator[str]:
    """Return why columns of a table that the source reported cannot be omitted."""
    omitted = rules.omitted(*table.key)
    if not omitted:
        return
    yield from _find_keys(table, omitted)
    for column in table.columns:
        if column.generated is None or column.name in omitted:
            continue
        if _names_column(f"select {column.generated}", omitted):
            yield f'column "{column.name}" is generated from one that rules omit'
    if all(column.name in omitted for column in table.columns):
        yield "rules omit all of its columns"


def _find_keys(table: TableDefinition, omitted: Collection[str]) -> Iterator[str]:
    for constraint in table.constraints:
        is_key = constraint.type == "p"
        if is_key and _names_column(f"alter table x add {constraint.definition}", omitted):
            yield f'primary key "{constraint.name}" has a column that rules omit'
    for index in table.unique_indexes:
        is_identity = index.is_replica_identity and table.replica_identity == "i"
        if is_identity and _names_column(index.definition, omitted):
            yield f'index "{index.name}", its replica identity, has a column that rules omit'
    key = table.partition_key
    if key is not None and _names_column(f"create table x () partition by {key}", omitted):
        yield "it is partitioned by a column that rules omit"
