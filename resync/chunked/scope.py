"""What a chunk is of: a range of keys, or keys that are read again; as conditions in SQL. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from pgrepl.catalog.tables import SourceTable
from pgrepl.replayer.chunked.key_staging import in_range
from pgrepl.store.resync.resync_chunks import KeyText

__all__ = ["KeyScope", "RangeScope", "Scope"]


@dataclass(frozen=True, slots=True)
class RangeScope:
    """The keys after one, up to a number of rows, and about as many bytes."""

    low: Sequence[str] | None
    limit: int
    most_bytes: int

    def copy_out(self, table: SourceTable, key: Sequence[str]) -> Composed:
        """Return the COPY that reads its rows."""
        names = [Identifier("t", name) for name in key]
        more = SQL(" order by {} limit {}").format(SQL(", ").join(names), Literal(self.limit))
        return _copy_out(table, in_range(names, self.low, None), more)


@dataclass(frozen=True, slots=True)
class KeyScope:
    """Some keys."""

    keys: Sequence[KeyText]

    def copy_out(self, table: SourceTable, key: Sequence[str]) -> Composed:
        """Return the COPY that reads their rows."""
        return _copy_out(table, self.condition(key), SQL(""))

    def condition(self, key: Sequence[str]) -> Composable:
        """Return the condition that a row has one of them."""
        names = SQL(", ").join(Identifier("t", name) for name in key)
        # Literals without a type take that of the column, which those of a VALUES would not.
        keys = SQL(", ").join(
            SQL("({})").format(SQL(", ").join(map(Literal, key))) for key in self.keys
        )
        return SQL("({}) in ({})").format(names, keys)


Scope = RangeScope | KeyScope


def _copy_out(table: SourceTable, condition: Composable, more: Composable) -> Composed:
    return SQL("copy (select {} from {} where {}{}) to stdout{}").format(
        table.selected(["t"]),
        table.rows,
        condition,
        more,
        SQL(" (format binary)" if table.is_plain else ""),
    )
