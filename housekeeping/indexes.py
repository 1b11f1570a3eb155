"""Indexes on foreign keys that nobody made.

On the source they are often missing, because there nobody joins from that side; the target is there
for joins. Their names are pgrepl's own, so that they never stand in the way of an index that
arrives from the source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier, Literal

from pgrepl.config.naming import shown_name
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["INDEX_PREFIX", "MissingIndex", "find_missing", "make_index"]

INDEX_PREFIX = "pgrepl_fk_"


@dataclass(frozen=True, slots=True)
class MissingIndex:
    """A row of ``sql/foreign_keys.sql``: a foreign key on the target without an index."""

    schema_name: str
    table_name: str
    constraint_name: str
    columns: list[str]

    @property
    def index_name(self) -> str:
        """The same for the same columns of the same table, whatever their names hold."""
        text = "\0".join((self.table_name, *self.columns))
        return INDEX_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        """Return the words for a message."""
        columns = ", ".join(shown_name(column) for column in self.columns)
        return f"{shown_name(self.schema_name, self.table_name)} ({columns})"


def find_missing(connection: Connection, schemas: Iterable[str]) -> Sequence[MissingIndex]:
    """Return the foreign keys of some schemas that need an index, the smallest table first."""
    with connection.cursor(row_factory=class_row(MissingIndex)) as cursor:
        query = load_query("pgrepl.housekeeping", "foreign_keys")
        return cursor.execute(query, {"schemas": list(schemas)}).fetchall()


def make_index(connection: Connection, missing: MissingIndex) -> None:
    """Make one index without keeping anybody from writing; needs autocommit.

    What an interrupted attempt left, an index that is not valid, is dropped first.
    """
    name = Identifier(missing.schema_name, missing.index_name)
    connection.execute(SQL("drop index concurrently if exists {}").format(name))
    connection.execute(
        SQL("create index concurrently {} on {} ({})").format(
            Identifier(missing.index_name),
            Identifier(missing.schema_name, missing.table_name),
            SQL(", ").join(map(Identifier, missing.columns)),
        )
    )
    reach("housekeeping.index_made")
    comment = f"pgrepl: for foreign key {missing.constraint_name}; not on the source"
    connection.execute(SQL("comment on index {} is {}").format(name, Literal(comment)))
