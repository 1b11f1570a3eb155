"""Which tables of a source are published, and which should be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from psycopg.rows import class_row
from psycopg.sql import Identifier

from pgrepl.catalog.unique_keys import UniqueKey, read_unique_keys, sent_identity
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import TableSelection
from pgrepl.decoding.pgoutput.stream import publication_names
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.spool.spool_format import DDL_TABLE
from pgrepl.store.tables.unsent import Unsent

__all__ = [
    "PublicationState",
    "Publications",
    "PublishedTable",
    "read_joined",
    "read_publications",
]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A row of ``sql/tables.sql``."""

    oid: int
    schema: str
    name: str
    root_schema: str
    root_name: str
    #: ``pg_class.relreplident``.
    replica_identity: str
    is_in_all: bool
    #: Whether it is in the first publication, which sends only some of its rows or columns.
    is_limited: bool
    is_in_inserts: bool
    #: Whether the publication sends columns that are generated, which before version 18 none does.
    sends_generated: bool
    #: Whether an UPDATE is allowed where the whole row is the identity: all of it has to be sent.
    sends_whole_row: bool
    #: Whether the role may publish it.
    is_owned: bool
    #: How many of its rows were updated or deleted, as the statistics know it.
    change_count: int
    keys: Sequence[UniqueKey] = ()

    @property
    def has_identity(self) -> bool:
        """Whether an UPDATE can be sent, as the server judges when a published table has one.

        Before version 18 an identity with a generated column is not sent as a whole.
        """
        if self.replica_identity == "f":
            return self.sends_whole_row
        key = sent_identity(self.replica_identity, self.keys)
        return key is not None and (self.sends_generated or not key.is_generated)

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
class PublicationState:
    """The row of ``sql/state.sql``."""

    #: Which of the two exist.
    names: Sequence[str]
    #: Whether the one of inserts is of all tables, those to come too.
    takes_all_inserts: bool
    #: Which of them do not send what they were made for.
    changed_names: Sequence[str]
    #: The selection, for the event triggers.
    comment: str | None
    #: Whether the event triggers are there.
    is_guarded: bool
    #: Whether the role may read which tables joined late.
    may_read_notes: bool
    #: Since when the statistics count.
    counted_since: datetime
    #: Whether they count at all.
    is_counting: bool
    #: The encoding of the database.
    encoding: str
    is_superuser: bool


@dataclass(frozen=True, slots=True)
class Publications:
    """The two publications of a source, as they are."""

    state: PublicationState
    tables: Sequence[PublishedTable]

    def unpublished(self, selection: TableSelection) -> Sequence[PublishedTable]:
        """Return tables of the selection some of whose changes are not sent, though they could."""
        return [
            table
            for table in self.tables
            if table.is_wanted(selection)
            and (self.state.changed_names or not self._is_published(table))
        ]

    def _is_published(self, table: PublishedTable) -> bool:
        if table.is_in_all:
            return True
        # Of the log of DDL inserts are enough.
        needs_all = table.has_identity and table.key != DDL_TABLE
        return not needs_all and (table.is_in_inserts or self.state.takes_all_inserts)

    def uncounted(self, selection: TableSelection) -> Sequence[PublishedTable]:
        """Return tables of which nobody knows whether they lost UPDATE and DELETE."""
        if self.state.is_counting:
            return []
        return [
            table
            for table in self.tables
            if table.key in self.unsent(selection)
            and not selection.is_append_only(table.root_schema, table.root_name)
        ]

    def refused(self) -> Sequence[PublishedTable]:
        """Return tables whose UPDATE and DELETE the server refuses because of a publication."""
        return [
            table
            for table in self.tables
            if (table.is_in_all or table.is_limited) and not table.has_identity
        ]

    def unsent(self, selection: TableSelection) -> Mapping[tuple[str, str], Unsent]:
        """Return tables whose UPDATE and DELETE cannot be sent, and how many rows that was."""
        return {
            table.key: Unsent(table.change_count, self.state.counted_since)
            for table in self.tables
            if table.is_wanted(selection) and not table.has_identity and table.key != DDL_TABLE
        }


def read_publications(connection: Connection, source: SourceConfig) -> Publications:
    """Read them, and every table that could be in them."""
    whole, inserts = publication_names(source.slot)
    names = {"all": whole, "inserts": inserts}
    with connection.cursor(row_factory=class_row(PublicationState)) as cursor:
        (state,) = cursor.execute(load_query("pgrepl.publications", "state"), names).fetchall()
    with connection.cursor(row_factory=class_row(PublishedTable)) as cursor:
        tables = cursor.execute(load_query("pgrepl.publications", "tables"), names).fetchall()
    keys = read_unique_keys(connection, [table.oid for table in tables])
    return Publications(state, [replace(table, keys=keys.get(table.oid, ())) for table in tables])


def read_joined(
    connection: Connection, source: SourceConfig, tables: Collection[int]
) -> Sequence[tuple[int, int]]:
    """Return in which transactions tables joined a publication, later than it was made.

    Tables are known by their OIDs, transactions by 32 bits.
    """
    whole, inserts = publication_names(source.slot)
    return connection.execute(
        load_query("pgrepl.publications", "joined"),
        {"all": whole, "inserts": inserts, "tables": list(tables)},
    ).fetchall()
