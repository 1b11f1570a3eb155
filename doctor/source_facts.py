"""Read from a source what the checks judge. Reads only; nothing on the source changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import LiteralString

from psycopg import errors
from psycopg.rows import class_row, scalar_row

from pgrepl.catalog.slots import Slot, read_slot, read_slots
from pgrepl.catalog.tables import read_tables
from pgrepl.catalog.unique_keys import UniqueKey, read_unique_keys
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import TableSelection, shown_name
from pgrepl.config.rules import Rules
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = [
    "SQL_ASCII",
    "PluginList",
    "SourceFacts",
    "SourceServer",
    "SourceTable",
    "TableOwner",
    "read_source",
]


#: The encoding that says nothing of what bytes mean.
SQL_ASCII = "SQL_ASCII"


@dataclass(frozen=True, slots=True)
class SourceServer:
    """A row of ``sql/source_server.sql``."""

    version_num: int
    is_standby: bool
    dbname: str
    system_identifier: int
    role: str
    may_replicate: bool
    #: Whether it reads every table, those that others make from now on too.
    reads_everything: bool
    wal_level: str
    max_slots: int
    used_slots: int
    max_wal_senders: int
    used_wal_senders: int
    encoding: str
    max_slot_wal_keep_mb: int
    #: None before PostgreSQL 18; 0: no limit.
    idle_slot_timeout_s: int | None
    #: Whether nobody between us and the server can read what it sends.
    is_private: bool
    has_large_objects: bool


@dataclass(frozen=True, slots=True)
class PluginList:
    """The setting ``output_plugin_libraries``, which servers before 15.19 do not have."""

    exists: bool
    #: None where the setting does not exist, or is set for the whole server and hidden from us.
    value: str | None


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A row of ``sql/table_facts.sql``."""

    oid: int
    schema: str
    table: str
    is_partitioned: bool
    is_unlogged: bool
    replica_identity: str
    may_use_schema: bool
    may_select: bool
    hides_rows: bool
    has_floats: bool
    #: By the configuration: it may do without an identity.
    is_append_only: bool
    keys: Sequence[UniqueKey] = ()

    @property
    def name(self) -> str:
        """The name for messages."""
        return shown_name(self.schema, self.table)


@dataclass(frozen=True, slots=True)
class TableOwner:
    """A row of ``sql/source_owners.sql``: whether what the owner makes from now on can be read."""

    owner: str
    schema: str
    opens_tables: bool
    opens_sequences: bool
    #: Tables and sequences in any schema, and schemas.
    opens_schemas: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """Everything known about a source."""

    server: SourceServer
    plugins: PluginList
    #: The replicated tables only.
    tables: Sequence[SourceTable]
    #: Sequences of their schemas that cannot be read, as (schema, name).
    unreadable_sequences: Sequence[tuple[str, str]]
    extensions: Sequence[str]
    slot: Slot | None
    #: Who owns the replicated tables, and where.
    owners: Sequence[TableOwner] = ()
    #: Slots of this database that may be pgrepl's, and that nobody reads.
    other_slots: Sequence[Slot] = ()

    @property
    def schemas(self) -> frozenset[str]:
        """The schemas of the replicated tables."""
        return frozenset(table.schema for table in self.tables)


def read_source(connection: Connection, source: SourceConfig) -> SourceFacts:
    """Read all facts about a source."""
    with connection.cursor(row_factory=class_row(SourceServer)) as cursor:
        (server,) = cursor.execute(_query("source_server")).fetchall()
    # Names in SQL_ASCII may be no text at all, and such a source is refused anyway.
    tables = [] if server.encoding == SQL_ASCII else _read_tables(connection, source.selection)
    oids = [table.oid for table in tables]
    with connection.cursor(row_factory=scalar_row) as cursor:
        extensions = cursor.execute(_query("source_extensions"), {"tables": oids}).fetchall()
    with connection.cursor(row_factory=class_row(TableOwner)) as cursor:
        owners = cursor.execute(_query("source_owners"), {"tables": oids}).fetchall()
    return SourceFacts(
        server=server,
        plugins=_read_plugin_list(connection),
        tables=tables,
        unreadable_sequences=_read_closed_sequences(connection, tables),
        extensions=extensions,
        slot=read_slot(connection, source.slot),
        owners=owners,
        other_slots=_read_other_slots(connection, source.slot),
    )


def _read_other_slots(connection: Connection, own: str) -> Sequence[Slot]:
    return [
        slot
        for slot in read_slots(connection)
        if slot.name.startswith("pgrepl") and slot.name != own
        if not slot.is_active and not slot.is_temporary
    ]


def _read_closed_sequences(
    connection: Connection, tables: Sequence[SourceTable]
) -> Sequence[tuple[str, str]]:
    given = {
        "schemas": sorted({table.schema for table in tables}),
        "tables": [table.oid for table in tables],
    }
    rows = connection.execute(_query("source_sequences"), given).fetchall()
    return [(schema, name) for schema, name in rows]


def _read_plugin_list(connection: Connection) -> PluginList:
    try:
        ((value,),) = connection.execute(
            "select current_setting('output_plugin_libraries', true)"
        ).fetchall()
    except errors.InsufficientPrivilege:
        # It is there, but only superusers and pg_read_all_settings may look.
        set_for_us = connection.execute(_query("source_plugin_list")).fetchone()
        return PluginList(exists=True, value=set_for_us[0] if set_for_us else None)
    return PluginList(exists=value is not None, value=value)


def _read_tables(connection: Connection, selection: TableSelection) -> Sequence[SourceTable]:
    # A partition comes with its root.
    selected = [
        table
        for table in read_tables(connection, Rules())
        if selection.matches(table.root_schema, table.root_name)
    ]
    append_only = [
        table.oid
        for table in selected
        if selection.is_append_only(table.root_schema, table.root_name)
    ]
    tables = {"tables": [table.oid for table in selected], "append_only": append_only}
    with connection.cursor(row_factory=class_row(SourceTable)) as cursor:
        found = cursor.execute(_query("table_facts"), tables).fetchall()
    keys = read_unique_keys(connection, tables["tables"])
    return [replace(table, keys=keys.get(table.oid, ())) for table in found]


def _query(name: str) -> LiteralString:
    return load_query("pgrepl.doctor", name)
