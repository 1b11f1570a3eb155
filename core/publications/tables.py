"""Which tables of a source are published, and which should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row
from psycopg.sql import Identifier

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import TableSelection
from pgrepl.decoding.pgoutput.stream import publication_names
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.spool import DDL_TABLE

__all__ = ["Publications", "PublishedTable", "read_publications"]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A row of ``sql/tables.sql``."""

    schema: str
    name: str
    root_schema: str
    root_name: str
    #: Whether the server can tell which row an UPDATE changes.
    has_identity: bool
    is_in_all: bool
    is_in_inserts: bool
    #: Whether the role may publish it.
    is_owned: bool

    @property
    def key(self) -> tuple[str, str]:
        """Schema and name."""
        return self.schema, self.name

    @property
    def identifier(self) -> Identifier:
        """The table in a statement."""
        return Identifier(self.schema, self.name)

    def is_wanted(self, selection: TableSelection) -> bool:
        """Whether its changes are to be received; those of the log of DDL are."""
        return self.key == DDL_TABLE or selection.matches(self.root_schema, self.root_name)


@dataclass(frozen=True, slots=True)
class Publications:
    """The two publications of a source, as they are."""

    #: Which of them exist.
    names: Sequence[str]
    tables: Sequence[PublishedTable]


def read_publications(connection: Connection, source: SourceConfig) -> Publications:
    """Read them, and every table that could be in them."""
    whole, inserts = publication_names(source.slot)
    names = connection.execute(
        "select pubname::text from pg_publication where pubname = any (%s)", ([whole, inserts],)
    ).fetchall()
    with connection.cursor(row_factory=class_row(PublishedTable)) as cursor:
        tables = cursor.execute(
            load_query("pgrepl.publications", "tables"), {"all": whole, "inserts": inserts}
        ).fetchall()
    return Publications([name for (name,) in names], tables)
