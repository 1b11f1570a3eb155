"""What a copy makes on the target, together with what it records of it in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from psycopg.sql import SQL, Identifier

from pgrepl.basebackup.rows.parts import TablePart
from pgrepl.basebackup.schema.needed_objects import LeftOut, skipped_as_left_out
from pgrepl.basebackup.schema.plan import SchemaPlan
from pgrepl.basebackup.snapshot import SnapshotStart
from pgrepl.catalog.ownership import hand_over
from pgrepl.catalog.tables import SourceTable
from pgrepl.config.dsn import Endpoint
from pgrepl.config.naming import NameClashError
from pgrepl.config.rules import Rules
from pgrepl.errors import TargetError
from pgrepl.postgres.connect import Connection
from pgrepl.store.skipped_code import forget_skipped, read_skipped, record_skipped
from pgrepl.store.sources import (
    add_target_schema,
    set_creating,
    set_streaming,
    take_target_schemas,
)
from pgrepl.store.tables import copy_work
from pgrepl.store.tables.copy_work import (
    RUN,
    LeftOutRow,
    add_left_out,
    add_parts,
    add_steps,
    clear_work,
    remove_begun_parts,
    remove_left_out,
    remove_plan,
)
from pgrepl.store.tables.places import read_places
from pgrepl.store.tables.source_names import give_names
from pgrepl.store.tables.source_tables import add_tables, begin_copies, remove_tables
from pgrepl.syntax.remap import rename_tables

__all__ = [
    "SESSION",
    "begin_copying",
    "end_copying",
    "forget",
    "make_schema",
    "name_tables",
    "read_left_out",
]

# pg_dump sets these for whoever runs its script.
SESSION = (
    "set local check_function_bodies = off",
    "set local xmloption = content",
    "set local default_tablespace = ''",
    "set local row_security = off",
)


def make_schema(
    connection: Connection,
    source_id: int,
    schemas: Mapping[str, str],
    plan: SchemaPlan,
    tables: Sequence[SourceTable],
    *,
    owner: str | None,
) -> None:
    """Make the schemas and everything in them, and record what was made, in one transaction.

    All of it is given to ``owner`` in the end, if there is one.
    """
    with connection.transaction():
        for statement in SESSION:
            connection.execute(statement)
        for source_schema, target_schema in schemas.items():
            connection.execute(SQL("create schema {}").format(Identifier(target_schema)))
            add_target_schema(connection, source_id, source_schema, target_schema)
        for sql in plan.before:
            # Printed by our own parser from its own tree: as safe as a composed statement.
            connection.execute(sql.encode())
        if owner is not None:
            hand_over(connection, schemas.values(), owner)
        # A partitioned table has no rows of its own to copy, but it is replicated: TRUNCATE of it
        # is in the stream.
        rows = ((*table.key, table.definition, table.oid) for table in tables)
        add_tables(connection, source_id, rows)
        add_steps(
            connection,
            source_id,
            ((step.phase, step.schema, step.table, step.sql) for step in plan.steps),
        )
        add_left_out(
            connection,
            source_id,
            (LeftOutRow(item.kind, item.name, item.reason) for item in plan.left_out),
        )
        record_skipped(connection, source_id, plan.skipped)


def begin_copying(
    connection: Connection,
    source_id: int,
    *,
    run_id: UUID,
    parts: Iterable[TablePart],
    tables: Sequence[SourceTable],
    target_schemas: Mapping[str, str],
    start: SnapshotStart,
) -> None:
    """Record what this run copies and under which snapshot; empty what an earlier run began."""
    names = [table.key for table in tables]
    with connection.transaction():
        for schema, table in remove_begun_parts(connection, source_id, names):
            connection.execute(
                SQL("truncate only {}").format(Identifier(target_schemas[schema], table))
            )
        begin_copies(connection, source_id, names, lsn=start.lsn, snapshot=start.snapshot)
        add_parts(
            connection,
            source_id,
            run_id,
            (
                (part.schema, part.table, part.first_block, part.end_block, part.size_bytes)
                for part in parts
            ),
        )


def end_copying(connection: Connection, endpoint: Endpoint, source_id: int, rules: Rules) -> None:
    """Give the tables their names, and let a receiver start."""
    with connection.transaction():
        name_tables(connection, endpoint, source_id, rules)
        set_streaming(connection, source_id)
        clear_work(connection, source_id)


def name_tables(connection: Connection, endpoint: Endpoint, source_id: int, rules: Rules) -> None:
    """Give tables that were made under the source's names those that the rules have for them.

    Raises
    ------
    TargetError
        when something else has such a name.

    """
    if not rules.table_names:
        return
    try:
        with connection.transaction():
            give_names(connection, source_id, rules)
            _rename_in_statements(connection, source_id)
    except NameClashError as exc:
        raise TargetError(
            f"{endpoint}: {exc}",
            hint="Rename it, or choose another name in the rules, and run the same command.",
        ) from exc


def _rename_in_statements(connection: Connection, source_id: int) -> None:
    """Give the statements that a person is to run the names that tables have now."""
    tables = read_places(connection, source_id).in_texts
    for row in copy_work.read_left_out(connection, source_id):
        told, run, statement = row.reason.partition(RUN)
        renamed = rename_tables(statement, tables) if run else statement
        if renamed != statement:
            remove_left_out(connection, source_id, row)
            add_left_out(connection, source_id, [row._replace(reason=told + run + renamed)])


def read_left_out(connection: Connection, source_id: int) -> Sequence[LeftOut]:
    """Return what the copy has not, with what is skipped because it calls code of the source."""
    left_out = [LeftOut(*row) for row in copy_work.read_left_out(connection, source_id)]
    skipped = map(skipped_as_left_out, read_skipped(connection, source_id))
    return sorted([*left_out, *skipped], key=lambda item: (item.kind, item.name))


def forget(connection: Connection, source_id: int) -> None:
    """Drop the schemas that pgrepl made for the source, and what it knows of its tables."""
    with connection.transaction():
        set_creating(connection, source_id)
        schemas = take_target_schemas(connection, source_id)
        if schemas:
            names = SQL(", ").join(map(Identifier, schemas))
            connection.execute(SQL("drop schema if exists {} cascade").format(names))
        remove_tables(connection, source_id)
        remove_plan(connection, source_id)
        forget_skipped(connection, source_id)
