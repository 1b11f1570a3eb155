"""What a copy writes on the target about itself, so that another run can go on from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from pgrepl.basebackup.rows.parts import Part
from pgrepl.basebackup.schema.classify import Phase, SchemaPlan
from pgrepl.basebackup.schema.needed_objects import LeftOut, skipped_as_left_out
from pgrepl.basebackup.snapshot import Start
from pgrepl.catalog.ownership import hand_over
from pgrepl.catalog.tables import SourceTable
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.skipped_code import forget_skipped, read_skipped, record_skipped
from pgrepl.store.sources import add_tables, set_creating

__all__ = [
    "PendingStep",
    "TableProgress",
    "begin_copying",
    "clear_parts",
    "clear_work",
    "finish_tables",
    "forget",
    "leave_out_steps",
    "make_schema",
    "read_left_out",
    "read_options",
    "read_progress",
    "read_steps",
    "write_options",
]

# pg_dump sets these for whoever runs its script.
_SESSION = (
    "set local check_function_bodies = off",
    "set local xmloption = content",
    "set local default_tablespace = ''",
    "set local row_security = off",
)


@dataclass(frozen=True, slots=True)
class PendingStep:
    """A row of ``replication.copy_step``."""

    step: int
    phase: Phase
    schema_name: str
    table_name: str
    statement: str
    #: What was copied of the table, if anything was.
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far the copy of a table is."""

    schema_name: str
    table_name: str
    is_ready: bool
    #: What there is to read on the source; of a finished table what was read.
    size_bytes: int
    done_bytes: int
    row_count: int
    byte_count: int
    seconds: float

    @property
    def name(self) -> str:
        """The table's name on the source."""
        return f"{self.schema_name}.{self.table_name}"


def write_options(connection: Connection, source_id: int, options: Mapping[str, object]) -> None:
    """Record what the copy that begins is asked for."""
    connection.execute(
        "update replication.source set copy_options = %s where source_id = %s",
        (Jsonb(dict(options)), source_id),
    )


def read_options(connection: Connection, source_id: int) -> Mapping[str, object] | None:
    """Return what the copy was asked for, None when an older pgrepl began it."""
    ((options,),) = connection.execute(
        "select copy_options from replication.source where source_id = %s", (source_id,)
    ).fetchall()
    return options  # type: ignore[no-any-return]  # JSON


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
        for statement in _SESSION:
            connection.execute(statement)
        for source_schema, target_schema in schemas.items():
            connection.execute(SQL("create schema {}").format(Identifier(target_schema)))
            connection.execute(
                "insert into replication.target_schema (target_schema, source_id, source_schema)"
                " values (%s, %s, %s)",
                (target_schema, source_id, source_schema),
            )
        for sql in plan.before:
            # Printed by our own parser from its own tree: as safe as a composed statement.
            connection.execute(sql.encode())
        if owner is not None:
            hand_over(connection, schemas.values(), owner)
        # A partitioned table has no rows of its own to copy, but it is replicated: TRUNCATE of it
        # is in the stream.
        add_tables(connection, source_id, ((*table.key, table.definition) for table in tables))
        with connection.cursor() as cursor:
            cursor.executemany(
                "insert into replication.copy_step"
                " (source_id, step, phase, schema_name, table_name, statement)"
                " values (%s, %s, %s, %s, %s, %s)",
                [
                    (source_id, number, step.phase, step.schema, step.table, step.sql)
                    for number, step in enumerate(plan.steps, 1)
                ],
            )
            cursor.executemany(
                "insert into replication.left_out (source_id, kind, name, reason)"
                " values (%s, %s, %s, %s)",
                [(source_id, item.kind, item.name, item.reason) for item in plan.left_out],
            )
        record_skipped(connection, source_id, plan.skipped)


def begin_copying(
    connection: Connection,
    source_id: int,
    *,
    run_id: UUID,
    parts: Iterable[Part],
    tables: Sequence[SourceTable],
    target_schemas: Mapping[str, str],
    start: Start,
) -> None:
    """Record what this run copies and under which snapshot; empty what an earlier run began."""
    keys = _keys(source_id, tables)
    with connection.transaction():
        # Waits for tasks of a dead run that are still at work; they find nothing more after this.
        begun = connection.execute(
            "delete from replication.copy_part p using replication.source_table t,"
            " unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema_name, table_name)"
            " where p.source_id = %(source)s and t.source_id = p.source_id"
            " and t.schema_name = p.schema_name and t.table_name = p.table_name"
            " and w.schema_name = p.schema_name and w.table_name = p.table_name"
            " and t.state <> 'ready' returning p.schema_name, p.table_name",
            keys,
        ).fetchall()
        for schema, table in sorted(set(begun)):
            connection.execute(
                SQL("truncate only {}").format(Identifier(target_schemas[schema], table))
            )
        connection.execute(
            "update replication.source_table t set state = 'copying',"
            " start_lsn = %(lsn)s, start_snapshot = %(snapshot)s::pg_snapshot"
            " from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema_name, table_name)"
            " where t.source_id = %(source)s and t.schema_name = w.schema_name"
            " and t.table_name = w.table_name",
            {**keys, "lsn": start.lsn, "snapshot": start.snapshot},
        )
        with (
            connection.cursor() as cursor,
            cursor.copy(
                "copy replication.copy_part (run_id, source_id, schema_name, table_name,"
                " first_block, end_block, size_bytes) from stdin"
            ) as copy,
        ):
            for part in parts:
                copy.write_row(
                    (
                        run_id,
                        source_id,
                        part.schema,
                        part.table,
                        part.first_block,
                        part.end_block,
                        part.size_bytes,
                    )
                )


def finish_tables(connection: Connection, source_id: int, tables: Iterable[SourceTable]) -> int:
    """Mark those tables whose parts are all copied as ready, and return how many became so."""
    done = connection.execute(
        load_query("pgrepl.basebackup", "finish_tables"), _keys(source_id, tables)
    )
    return done.rowcount


def read_progress(connection: Connection, source_id: int) -> Sequence[TableProgress]:
    """Return how far each table is, with what is being written at this moment."""
    with connection.cursor(row_factory=class_row(TableProgress)) as cursor:
        return cursor.execute(
            load_query("pgrepl.basebackup", "copy_progress"),
            {"source": source_id},
        ).fetchall()


def read_left_out(connection: Connection, source_id: int) -> Sequence[LeftOut]:
    """Return what the copy has not, with what is skipped because it calls code of the source."""
    with connection.cursor(row_factory=class_row(LeftOut)) as cursor:
        left_out = cursor.execute(
            "select kind, name, reason from replication.left_out where source_id = %s",
            (source_id,),
        ).fetchall()
    skipped = map(skipped_as_left_out, read_skipped(connection, source_id))
    return sorted([*left_out, *skipped], key=lambda item: (item.kind, item.name))


def read_steps(connection: Connection, source_id: int) -> Sequence[PendingStep]:
    """Return the steps that are still to be done, in order."""
    with connection.cursor(row_factory=class_row(PendingStep)) as cursor:
        return cursor.execute(
            "select step, phase, schema_name, table_name, statement,"
            " (select coalesce(sum(p.size_bytes), 0)::bigint from replication.copy_part p"
            " where (p.source_id, p.schema_name, p.table_name)"
            " = (s.source_id, s.schema_name, s.table_name)) as size_bytes"
            " from replication.copy_step s where source_id = %s and not is_done order by step",
            (source_id,),
        ).fetchall()


def forget(connection: Connection, source_id: int) -> None:
    """Drop the schemas that pgrepl made for the source, and what it knows of its tables."""
    with connection.transaction():
        set_creating(connection, source_id)
        schemas = connection.execute(
            "delete from replication.target_schema where source_id = %s returning target_schema",
            (source_id,),
        ).fetchall()
        if schemas:
            names = SQL(", ").join(Identifier(schema) for (schema,) in schemas)
            connection.execute(SQL("drop schema if exists {} cascade").format(names))
        connection.execute(
            "delete from replication.source_table where source_id = %s", (source_id,)
        )
        connection.execute("delete from replication.copy_step where source_id = %s", (source_id,))
        connection.execute("delete from replication.left_out where source_id = %s", (source_id,))
        forget_skipped(connection, source_id)


def leave_out_steps(connection: Connection, source_id: int) -> None:
    """Name the steps that were not done as left out: somebody may do them after replay."""
    connection.execute(
        "insert into replication.left_out (source_id, kind, name, reason)"
        " select source_id, 'validity', schema_name || '.' || table_name,"
        " 'tables were copied at different moments; when replay has caught up, run: ' || statement"
        " from replication.copy_step where source_id = %s and not is_done order by step",
        (source_id,),
    )


def clear_parts(connection: Connection, source_id: int, tables: Iterable[SourceTable]) -> None:
    """Remove the lists of what was to be copied of some tables, when it is done."""
    connection.execute(
        "delete from replication.copy_part p"
        " using unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema_name, table_name)"
        " where p.source_id = %(source)s and w.schema_name = p.schema_name"
        " and w.table_name = p.table_name",
        _keys(source_id, tables),
    )


def _keys(source_id: int, tables: Iterable[SourceTable]) -> dict[str, object]:
    """Return tables as the parameters of a query."""
    keys = [table.key for table in tables]
    return {
        "source": source_id,
        "schemas": [schema for schema, _ in keys],
        "names": [name for _, name in keys],
    }


def clear_work(connection: Connection, source_id: int) -> None:
    """Remove the lists of what was to be done, when it is done."""
    connection.execute("delete from replication.copy_part where source_id = %s", (source_id,))
    connection.execute("delete from replication.copy_step where source_id = %s", (source_id,))
