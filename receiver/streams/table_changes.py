"""What a table of the target lacks for rows of a schema: columns, wider types, nulls. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from psycopg.sql import SQL, Composed, Identifier

__all__ = ["ColumnSpec", "FoundColumn", "TableChange", "needed_changes", "type_sql"]

#: Types of our own mapping, and nothing else, become a part of a statement.
_TYPE = re.compile(r"[a-z]+( [a-z]+)*(\([0-9]+(,-?[0-9]+)?\))?(\[\])*")
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
#: Each has all values of those before it.
_RISING = (("smallint", "integer", "bigint"), ("real", "double precision"))


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column as a schema wants it."""

    name: str
    #: PostgreSQL's type; made by us, never by the source.
    type: str
    is_not_null: bool
    #: What is lost of its values before they come; None: nothing that is known.
    loss: str | None = None


class FoundColumn(NamedTuple):
    """A column as the target has it."""

    type: str
    is_not_null: bool
    is_key: bool


class TableChange(NamedTuple):
    """A part of ALTER TABLE."""

    column: str
    clause: Composed
    #: What rows need that come now; whether rows fit without it the server tells.
    is_needed: bool


def type_sql(kind: str) -> SQL:
    """Return a type of ours as a part of a statement.

    Raises
    ------
    AssertionError
        when it is something else.

    """
    if _TYPE.fullmatch(kind) is None:
        raise AssertionError("a type is one of our own mapping")
    return SQL(kind)


def needed_changes(
    found: Mapping[str, FoundColumn], wanted: Sequence[ColumnSpec]
) -> Iterator[TableChange]:
    """Return what a table lacks; what a schema does not have any more becomes null."""
    for column in wanted:
        own, name = found.get(column.name), Identifier(column.name)
        if own is None:
            clause = SQL("add column {} {}").format(name, type_sql(column.type))
            yield TableChange(column.name, clause, is_needed=True)
        elif _is_wider(column.type, own.type):
            clause = SQL("alter column {} type {}").format(name, type_sql(column.type))
            yield TableChange(column.name, clause, is_needed=False)
    required = {column.name for column in wanted if column.is_not_null}
    for given, own in found.items():
        if own.is_not_null and not own.is_key and given not in required:
            clause = SQL("alter column {} drop not null").format(Identifier(given))
            yield TableChange(given, clause, is_needed=False)


def _is_wider(one: str, other: str) -> bool:
    """Whether a type has all values of another, and more."""
    for kinds in _RISING:
        if one in kinds and other in kinds:
            return kinds.index(one) > kinds.index(other)
    numbers = _NUMERIC.fullmatch(other)
    if numbers is None:
        return False
    if one == "numeric":
        return True
    wide = _NUMERIC.fullmatch(one)
    if wide is None or one == other:
        return False
    (precision, scale), (most, digits) = (map(int, own.groups()) for own in (numbers, wide))
    return digits >= scale and most - digits >= precision - scale
