"""A table of the target, as far as applying changes needs to know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from psycopg.sql import Identifier

__all__ = ["Column", "Shape", "ValueKind"]

#: How wal2json prints a value: bare (booleans), bare or as text by its version (integers; floats
#: and numerics), as hex digits without ``\x``, as text.
ValueKind = Literal["boolean", "integer", "float", "bytea", "text"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of the target."""

    name: str
    kind: ValueKind
    is_generated: bool
    #: ``generated always as identity``: INSERT can override it, UPDATE cannot.
    is_identity_always: bool
    #: Schema and name of the type to stage it in, when not its own: the one below a domain, which
    #: has no constraints.
    staging_type: tuple[str, str] | None
    #: The schema of the type's own ``=``; None: PostgreSQL's.
    equality_schema: str | None = None
    #: Schema and name of the array over that type, as which many values can be sent at once, and of
    #: the type itself where only texts can be. Both None: values can be sent by COPY only.
    array_type: tuple[str, str] | None = None
    cast_type: tuple[str, str] | None = None
    #: Generated on the source and a plain one here, which takes the source's values.
    is_computed: bool = False


@dataclass(frozen=True, eq=False)
class Shape:
    """A table of the target. One that was read again is another: what was made for it is not."""

    schema: str
    name: str
    #: ``pg_class.relkind``.
    relkind: str
    #: In the order of the table.
    columns: Sequence[Column]
    #: The columns of the primary key, or of the index that is its replica identity.
    key: tuple[str, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Column]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    @cached_property
    def stored(self) -> tuple[str, ...]:
        """The columns that can be written."""
        return tuple(column.name for column in self.columns if not column.is_generated)

    @cached_property
    def carried(self) -> tuple[str, ...]:
        """The columns that changes carry: those, and generated ones that are part of the key."""
        return tuple(c.name for c in self.columns if not c.is_generated or c.name in self.key)

    @property
    def identifier(self) -> Identifier:
        """The table in a statement."""
        return Identifier(self.schema, self.name)
