"""The target's side of a DDL statement: what is there before and after it, and who owns it.

What a statement did to the tables is read from the catalogue by their OIDs, which stay when names
and schemas change: a rename is told from a drop and a create, whatever statement did it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import LiteralString

from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier

from pgrepl.config.naming import TableSelection
from pgrepl.ddl import CapturedDdl
from pgrepl.ddl_capture.definition import TableDefinition, TableName, decode_definition
from pgrepl.ddl_capture.policy.functions import TargetFunction
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.prepared import ask_catalog
from pgrepl.postgres.queries import load_query
from pgrepl.store.sources import add_target_schema, remove_target_schemas
from pgrepl.store.tables.source_tables import add_new_table, is_replicated
from pgrepl.store.tables.table_names import remove_table, rename_table

__all__ = [
    "TargetRelation",
    "TargetTables",
    "empty",
    "read_definitions",
    "read_family",
    "read_functions",
    "read_members",
    "read_outside_dependents",
    "read_relations",
    "read_schema_oids",
    "read_tables",
    "record_schemas",
    "record_tables",
]

_PACKAGE = "pgrepl.ddl_capture"


#: What is known of a table by its name.
@dataclass(frozen=True, slots=True)
class TargetRelation:
    """A table in a row of ``sql/target_tables.sql``."""

    oid: int
    schema: str
    name: str
    root_schema: str
    root_name: str
    is_permanent: bool
    #: Not a partitioned table, whose rows are its partitions'.
    has_rows: bool


@dataclass(frozen=True, slots=True)
class TargetTables:
    """Schemas of the target and the tables in them, both by their OIDs."""

    schemas: Mapping[int, str]
    relations: Mapping[int, TargetRelation]


def read_tables(connection: Connection, schemas: Iterable[str]) -> TargetTables:
    """Return those of some schemas that exist, and the tables in them."""
    found: dict[int, str] = {}
    relations: dict[int, TargetRelation] = {}
    with connection.cursor() as cursor:
        ask_catalog(cursor, load_query(_PACKAGE, "target_tables"), {"schemas": list(schemas)})
        for schema_oid, schema, oid, *rest in cursor.fetchall():
            found[schema_oid] = schema
            if oid is not None:
                relations[oid] = TargetRelation(oid, schema, *rest)
    return TargetTables(found, relations)


def read_relations(connection: Connection, schemas: Iterable[str]) -> Mapping[int, TargetRelation]:
    """Return the tables in some schemas by their OIDs."""
    return read_tables(connection, schemas).relations


def read_family(connection: Connection, table: TableName) -> frozenset[int]:
    """Return the OIDs of a table and of all that inherit from it, partitions among them."""
    rows = connection.execute(
        "with recursive family (oid) as (select c.oid from pg_class c"
        " join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s"
        " union select i.inhrelid from family f join pg_inherits i on i.inhparent = f.oid)"
        " select oid::bigint from family",
        table,
    )
    return frozenset(oid for (oid,) in rows.fetchall())


def read_schema_oids(connection: Connection, schemas: Iterable[str]) -> dict[int, str]:
    """Return schemas by their OIDs, those that exist."""
    rows = connection.execute(
        "select oid::bigint, nspname::text from pg_namespace where nspname = any (%s)",
        (list(schemas),),
    )
    return dict(rows.fetchall())


def read_members(
    connection: Connection, extensions: Iterable[str]
) -> Sequence[tuple[str, str, str]]:
    """Return what belongs to extensions of the target: extension, schema, name."""
    with connection.cursor() as cursor:
        ask_catalog(
            cursor, load_query(_PACKAGE, "extension_members"), {"extensions": list(extensions)}
        )
        return [(str(extension), str(schema), str(name)) for extension, schema, name in cursor]


def read_functions(connection: Connection, names: Iterable[str]) -> Sequence[TargetFunction]:
    """Return the functions of these names, in whatever schema."""
    wanted = sorted(set(names))
    if not wanted:
        return ()
    with connection.cursor(row_factory=class_row(TargetFunction)) as cursor:
        return cursor.execute(load_query(_PACKAGE, "functions"), {"names": wanted}).fetchall()


def read_outside_dependents(connection: Connection, schemas: Iterable[str]) -> frozenset[str]:
    """Return what elsewhere depends on objects in these schemas."""
    rows = connection.execute(
        load_query(_PACKAGE, "outside_dependents"),
        {"schemas": list(read_schema_oids(connection, schemas))},
    )
    return frozenset(name for (name,) in rows.fetchall())


def read_definitions(
    connection: Connection, tables: Iterable[TableName]
) -> dict[TableName, TableDefinition]:
    """Return the structures of tables, those that exist."""
    schemas, names = [], []
    for schema, name in tables:
        schemas.append(schema)
        names.append(name)
    if not names:
        return {}
    with connection.cursor() as cursor:
        ask_catalog(cursor, _definition_query(), {"schemas": schemas, "names": names})
        return {
            (schema, name): decode_definition(value)
            for schema, name, value in cursor
            if value is not None
        }


@cache
def _definition_query() -> LiteralString:
    # All of it is ours.
    return (
        f"select n.nspname::text, k.relname::text, ({load_query(_PACKAGE, 'table_definition')})"  # noqa: S608
        " from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema, name)"
        " join pg_namespace n on n.nspname = w.schema"
        " join pg_class k on k.relnamespace = n.oid and k.relname = w.name"
        " cross join lateral (select k.oid) as r (rel)"
    )


def record_schemas(
    connection: Connection,
    source_id: int,
    before: Mapping[int, str],
    after: Mapping[int, str],
    sources: Mapping[str, str],
) -> None:
    """Note schemas that came, went or got another name; ``sources`` has what each stands for."""
    gone = [name for oid, name in before.items() if after.get(oid) != name]
    if gone:
        remove_target_schemas(connection, source_id, gone)
    for oid, name in after.items():
        if before.get(oid) != name:
            add_target_schema(connection, source_id, sources[name], name)


def record_tables(
    connection: Connection,
    captured: CapturedDdl,
    *,
    before: Mapping[int, TargetRelation],
    after: Mapping[int, TargetRelation],
    sources: tuple[Mapping[str, str], Mapping[str, str]],
    selection: TableSelection,
) -> list[TableName]:
    """Note tables that came, went, or got another name or schema.

    ``sources`` has the source's schema for each of the target's, before and after. Returned are the
    tables of the target that were not replicated and are again: what they hold is old.
    """
    source_id = captured.source.source_id
    old, new = sources
    for oid, was in before.items():
        if oid not in after:
            remove_table(connection, source_id, (old[was.schema], was.name), captured.commit_lsn)
    renamed = [
        (before[oid], now)
        for oid, now in after.items()
        if oid in before and (before[oid].schema, before[oid].name) != (now.schema, now.name)
    ]
    for was, now in renamed:
        rename_table(
            connection,
            source_id,
            (old[was.schema], was.name),
            (new[now.schema], now.name),
            captured.commit_lsn,
        )
    returned: list[TableName] = []
    for oid, now in after.items():
        if before.get(oid) == now:
            continue
        key = (new[now.schema], now.name)
        is_selected = (
            selection.matches(new.get(now.root_schema, now.root_schema), now.root_name)
            and now.is_permanent
        )
        if not is_selected:
            if oid in before:
                remove_table(connection, source_id, key)
        elif oid not in before or not before[oid].is_permanent:
            add_new_table(connection, source_id, key, captured.commit_lsn)
        elif not is_replicated(connection, source_id, key):
            add_new_table(connection, source_id, key, captured.commit_lsn)
            returned.append((now.schema, now.name))
    return returned


def empty(connection: Connection, table: TableName) -> None:
    """Remove the rows of a table of the target, not those of its children."""
    name = Identifier(*table)
    ((is_referenced,),) = connection.execute(
        "select exists (select from pg_constraint where contype = 'f'"
        " and confrelid = %s::regclass and conrelid <> confrelid)",
        (name.as_string(),),
    ).fetchall()
    # PostgreSQL does not truncate what foreign keys refer to, whether they are in force.
    statement = SQL("delete from only {}" if is_referenced else "truncate only {}")
    connection.execute(statement.format(name))
