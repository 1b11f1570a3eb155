"""The columns of a table brought to the source's structure. Pure.

Where rows would have to get values, they are not guessed: the step says that the table has to be
copied again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from pgrepl.ddl_capture.apply.structure.create_table import column_clause
from pgrepl.ddl_capture.apply.structure.differences import (
    canonical_column,
    canonical_expression,
    canonical_type,
)
from pgrepl.ddl_capture.apply.structure.reconcile_step import Needless, Step, Table, alter
from pgrepl.ddl_capture.definition import Column
from pgrepl.syntax.parse import quoted_names

__all__ = ["plan_columns"]

_IDENTITY = {"a": "always", "d": "by default"}


def plan_columns(table: Table, dropped: Collection[str]) -> Iterator[Step]:
    """Yield what makes the target's columns those of the source."""
    there = {column.name: column for column in table.target.columns}
    wanted = {column.name for column in table.source.columns}
    # One that is generated from another goes before that.
    for name in sorted(there, key=lambda name: there[name].generated is None):
        if name in dropped and name not in wanted:
            yield _drop(table, name)
    for column in table.source.columns:
        found = there.get(column.name)
        if found is None:
            yield from _add(table, column)
        elif canonical_column(column, table.names) != canonical_column(found, None):
            yield from _alter(table, column, found)


def _drop(table: Table, name: str) -> Step:
    # What of the source's depended on it was dropped there as well.
    return alter(table, f"drop column {quoted_names(name)} cascade", "AT_DropColumn")


def _add(table: Table, column: Column) -> Iterator[Step]:
    if column.generated is not None or column.identity:
        # The values of a generated column are computed from the others, by what is immutable.
        is_void = column.generated is None
        yield alter(table, f"add column {column_clause(column)}", "AT_AddColumn", is_void=is_void)
        return
    bare = replace(column, default=None, is_not_null=False)
    yield alter(table, f"add column {column_clause(bare)}", "AT_AddColumn", is_void=True)
    yield from _alter(table, column, bare, is_on_target=False)


def _alter(
    table: Table, column: Column, found: Column, *, is_on_target: bool = True
) -> Iterator[Step]:
    """Yield what makes one column of another; that one may be written in the source's names."""
    is_computed = _differs(table, column.generated, found.generated)
    if is_computed and column.generated is not None:
        yield _drop(table, column.name)
        yield from _add(table, column)
        return
    alter_column = f"alter column {quoted_names(column.name)}"
    if is_computed:
        yield alter(table, f"{alter_column} drop expression", "AT_DropExpression")
    is_retyped = is_on_target and (
        canonical_type(column, table.names) != canonical_type(found, None)
    )
    if found.default is not None and (is_retyped or column.default is None):
        yield alter(table, f"{alter_column} drop default", "AT_ColumnDefault")
    if found.identity and not column.identity:
        yield alter(table, f"{alter_column} drop identity", "AT_DropIdentity")
    if is_retyped:
        # A conversion would be a guess.
        kind = column.type + (f" collate {column.collation}" if column.collation else "")
        using = "" if column.generated else " using null"
        action = f"{alter_column} type {kind}{using}"
        yield alter(table, action, "AT_AlterColumnType", is_void=True)
    yield from _require(table, column, found)
    if column.default is not None and (
        is_retyped or _differs(table, column.default, found.default)
    ):
        action = f"{alter_column} set default {column.default}"
        needless = Needless("default", column.name, column.default)
        yield alter(table, action, "AT_ColumnDefault", needless)


def _require(table: Table, column: Column, found: Column) -> Iterator[Step]:
    """Yield what makes a column NOT NULL or an identity column, which is NOT NULL too."""
    alter_column = f"alter column {quoted_names(column.name)}"
    if column.is_not_null and not found.is_not_null:
        yield alter(table, f"{alter_column} set not null", "AT_SetNotNull")
    if column.identity and column.identity != found.identity:
        kind = _IDENTITY[column.identity]
        if found.identity:
            yield alter(table, f"{alter_column} set generated {kind}", "AT_SetIdentity")
        else:
            action = f"{alter_column} add generated {kind} as identity"
            yield alter(table, action, "AT_AddIdentity")
    if found.is_not_null and not column.is_not_null:
        yield alter(table, f"{alter_column} drop not null", "AT_DropNotNull")


def _differs(table: Table, mine: str | None, theirs: str | None) -> bool:
    return canonical_expression(mine, table.names) != canonical_expression(theirs, None)
