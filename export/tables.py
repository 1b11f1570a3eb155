"""Tables as their events describe them: read from the target once, then changed by captured DDL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgrepl.ddl_capture.definition import TableDefinition
from pgrepl.lsn import Lsn
from pgrepl.store.tables.copy_start import CopyStart
from pgrepl.syntax.parse import parse_one

__all__ = ["Column", "ExportedTable", "TableName", "of_definition"]

TableName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column that changes carry."""

    name: str
    #: As ``format_type`` prints it.
    type: str
    is_not_null: bool


@dataclass(frozen=True, slots=True)
class ExportedTable:
    """A table at the position of a consumer."""

    schema: str
    table: str
    columns: tuple[Column, ...]
    #: What tells its rows apart: the index of its replica identity, or its primary key.
    key: tuple[str, ...]
    #: Columns that the source generates: they are not handed on.
    ignored: frozenset[str] = frozenset()
    #: Which transactions its rows contain already that were handed on; None: none.
    start: CopyStart | None = None

    @property
    def name(self) -> TableName:
        """Schema and table on the source."""
        return self.schema, self.table

    @classmethod
    def load(cls, value: Mapping[str, Any]) -> ExportedTable:
        """Make it of what ``dump`` returned."""
        start = value.get("start")
        return cls(
            value["schema"],
            value["table"],
            tuple(Column(*column) for column in value["columns"]),
            tuple(value["key"]),
            frozenset(value["ignored"]),
            None if start is None else CopyStart(Lsn.parse(start[0]), start[1]),
        )

    def dump(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        start = self.start
        return {
            "schema": self.schema,
            "table": self.table,
            "columns": [[own.name, own.type, own.is_not_null] for own in self.columns],
            "key": list(self.key),
            "ignored": sorted(self.ignored),
            "start": None if start is None else [str(start.lsn), start.snapshot],
        }


def of_definition(definition: TableDefinition, start: CopyStart | None) -> ExportedTable:
    """Return a table as captured DDL left it."""
    return ExportedTable(
        definition.schema,
        definition.name,
        tuple(
            Column(own.name, own.type, own.is_not_null)
            for own in definition.columns
            if own.generated is None
        ),
        _key(definition),
        frozenset(own.name for own in definition.columns if own.generated is not None),
        start,
    )


def _key(definition: TableDefinition) -> tuple[str, ...]:
    primary = next((own.name for own in definition.constraints if own.type == "p"), None)
    chosen = [own for own in definition.unique_indexes if own.is_replica_identity]
    if definition.replica_identity != "i" or not chosen:
        chosen = [own for own in definition.unique_indexes if own.name == primary]
    return _columns_of(chosen[0].definition, definition) if chosen else ()


def _columns_of(index: str, definition: TableDefinition) -> tuple[str, ...]:
    """Return the columns of an index, in the order of the table."""
    parameters = parse_one(index).index_stmt.index_params
    names: Sequence[str] = [own.index_elem.name for own in parameters]
    return tuple(own.name for own in definition.columns if own.name in names)
