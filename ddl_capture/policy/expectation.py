"""What a table of the source has that a copy can do without, and how it is then. Pure.

The structure that the source reports is with all its code. What the target was not given of it must
not be missed there: each thing for a reason, never by the way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from pgrepl.ddl_capture.definition import TableDefinition
from pgrepl.ddl_capture.policy.code_places import CodeKind
from pgrepl.syntax.parse import quoted_names

__all__ = ["Absent", "find_absent", "find_code", "without"]

_CONSTRAINTS: Mapping[str, CodeKind] = {
    "c": "check",
    "f": "foreign key",
    "u": "unique constraint",
    "x": "exclusion constraint",
}


@dataclass(frozen=True, slots=True)
class Absent:
    """Something of a table that rests on code, as the source reports it."""

    kind: CodeKind
    name: str
    definition: str
    #: A statement with the source's names that would make it.
    statement: str

    @property
    def key(self) -> tuple[str, str]:
        """Kind and name."""
        return self.kind, self.name


def find_code(table: TableDefinition) -> Iterator[Absent]:
    """Yield what of a table may rest on code, or on what the target has not."""
    alter = f"alter table {quoted_names(*table.key)}"
    for column in table.columns:
        name = quoted_names(column.name)
        if column.generated is not None:
            expression = column.generated
            sql = f"{alter} alter {name} set expression as ({expression})"
            yield Absent("generated column", column.name, expression, sql)
        elif column.default is not None:
            expression = column.default
            sql = f"{alter} alter {name} set default {expression}"
            yield Absent("default", column.name, expression, sql)
    for constraint in table.constraints:
        kind = _CONSTRAINTS.get(constraint.type)
        if kind is not None:
            name, definition = constraint.name, constraint.definition
            sql = f"{alter} add constraint {quoted_names(name)} {definition}"
            yield Absent(kind, name, definition, sql)
    keys = {constraint.name for constraint in table.constraints}
    for index in table.unique_indexes:
        if index.name not in keys:
            yield Absent("index", index.name, index.definition, index.definition)


def find_absent(source: TableDefinition, target: TableDefinition) -> list[Absent]:
    """Return what of the source's table may rest on code and is not on the target."""
    there = {item.key for item in find_code(target)}
    return [item for item in find_code(source) if item.key not in there]


def without(table: TableDefinition, absent: Collection[tuple[str, str]]) -> TableDefinition:
    """Return a table of the source as it is without some of its code."""
    if not absent:
        return table
    columns = []
    for column in table.columns:
        made = column
        if ("generated column", column.name) in absent:
            made = replace(made, generated=None)
        if ("default", column.name) in absent:
            made = replace(made, default=None)
        columns.append(made)
    gone = {name for kind, name in absent if kind in ("index", "unique constraint")}
    indexes = [index for index in table.unique_indexes if index.name not in gone]
    is_identity_lost = any(
        index.is_replica_identity for index in table.unique_indexes if index not in indexes
    )
    return replace(
        table,
        columns=tuple(columns),
        constraints=tuple(
            item
            for item in table.constraints
            if (_CONSTRAINTS.get(item.type), item.name) not in absent
        ),
        unique_indexes=tuple(indexes),
        replica_identity="f" if is_identity_lost else table.replica_identity,
    )
