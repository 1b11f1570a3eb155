"""Read from the target what the checks judge. Reads only; nothing on the target changes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg.rows import class_row, scalar_row

from pgrepl.catalog.ownership import OwnerRole, hand_over_statements, read_owner
from pgrepl.config.naming import TableSelection, shown_name
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.source_code.locale import read_locale
from pgrepl.store.migrations import has_step, read_version
from pgrepl.store.sources import find_source, read_schema_places, read_slots
from pgrepl.store.tables.places import NAMES_STEP, CopyPlace, read_copy_places
from pgrepl.store.tables.unselected import find_unselected

__all__ = ["SchemaOwner", "SourceCode", "TargetFacts", "TargetServer", "read_target"]


@dataclass(frozen=True, slots=True)
class TargetServer:
    """A row of ``sql/target_server.sql``."""

    version_num: int
    is_read_only: bool
    dbname: str
    system_identifier: int
    role: str
    may_create: bool
    may_set_replica_role: bool
    has_lz4: bool
    encoding: str
    max_origins: int
    origins: Sequence[str]
    locks_per_transaction: int
    #: The transactions among which all locks are shared out.
    lock_holders: int
    #: Whether nobody between us and the server can read what is sent.
    is_private: bool
    schemas: Sequence[str]
    installed_extensions: Sequence[str]
    available_extensions: Sequence[str]


@dataclass(frozen=True, slots=True)
class SchemaOwner:
    """The role that is to own a source's schemas."""

    source: str
    role: OwnerRole
    #: What gives to it what pgrepl's own role has in them.
    to_hand_over: Sequence[str]


@dataclass(frozen=True, slots=True)
class SourceCode:
    """A row of ``sql/target_code.sql``: code of a source, or what calls it."""

    source: str
    kind: str
    name: str
    #: What takes it away.
    statement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """Everything known about the target."""

    server: TargetServer
    #: Signatures of origin functions that the role may not call.
    closed_functions: Sequence[str]
    #: The version of the schema "replication": 0 when there is none, None when it is not ours.
    schema_version: int | None
    #: The schemas that pgrepl made, with the source each belongs to.
    own_schemas: dict[str, str]
    #: Where the schemas of sources are, by source and schema.
    places: Mapping[tuple[str, str], str] = field(default_factory=dict)
    #: Copies that have another name than their tables, or are to have one.
    copies: Sequence[CopyPlace] = ()
    #: The slot of each source that the target knows.
    source_slots: Mapping[str, str] = field(default_factory=dict)
    #: Who is to own the schemas of each source of the configuration.
    owners: Sequence[SchemaOwner] = ()
    #: Replicated tables of those sources that their patterns do not take in, by their sources.
    passed_over: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Code of those sources in their copies, in the order in which it can be removed.
    code: Sequence[SourceCode] = ()
    #: What its database computes by.
    locale: str | None = None


def read_target(
    connection: Connection,
    owners: Mapping[str, str],
    selections: Mapping[str, TableSelection],
    names: Iterable[tuple[str, str, str]] = (),
) -> TargetFacts:
    """Read all facts about the target.

    ``owners`` leads from sources to the roles for them, ``selections`` from those that are
    databases to what is replicated of them; ``names`` are tables that rules give other names:
    source, schema and table.
    """
    with connection.cursor(row_factory=class_row(TargetServer)) as cursor:
        (server,) = cursor.execute(load_query("pgrepl.doctor", "target_server")).fetchall()
    with connection.cursor(row_factory=scalar_row) as cursor:
        closed = cursor.execute(load_query("pgrepl.doctor", "target_functions")).fetchall()
    version = read_version(connection)
    places = read_schema_places(connection) if version else {}
    own_schemas = {target: source for (source, _), target in places.items()}
    return TargetFacts(
        server=server,
        closed_functions=closed,
        schema_version=version,
        own_schemas=own_schemas,
        places=places,
        source_slots=read_slots(connection) if version else {},
        owners=[
            _read_owner(connection, source, role, own_schemas) for source, role in owners.items()
        ],
        copies=read_copy_places(connection, names) if version else (),
        passed_over=_read_passed_over(connection, selections) if version else {},
        code=_read_code(connection, own_schemas, owners),
        locale=read_locale(connection),
    )


def _read_passed_over(
    connection: Connection, selections: Mapping[str, TableSelection]
) -> Mapping[str, Sequence[str]]:
    if not has_step(connection, NAMES_STEP):
        # Whatever runs next brings the schema up to date.
        return {}
    rows = {source: find_source(connection, source) for source in selections}
    return {
        source: [
            shown_name(*name)
            for name in find_unselected(connection, row.source_id, selections[source])
        ]
        for source, row in rows.items()
        if row is not None
    }


def _read_code(
    connection: Connection, own_schemas: Mapping[str, str], sources: Collection[str]
) -> Sequence[SourceCode]:
    rows = connection.execute(
        load_query("pgrepl.doctor", "target_code"),
        {"schemas": [schema for schema, source in own_schemas.items() if source in sources]},
    ).fetchall()
    return [
        SourceCode(own_schemas[schema], kind, name, statement)
        for schema, kind, name, statement in rows
    ]


def _read_owner(
    connection: Connection, source: str, role: str, own_schemas: Mapping[str, str]
) -> SchemaOwner:
    schemas = [schema for schema, name in own_schemas.items() if name == source]
    return SchemaOwner(
        source, read_owner(connection, role), hand_over_statements(connection, schemas, role)
    )
