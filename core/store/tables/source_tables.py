"""The rows of ``replication.source_table``, by names on the source, and of ``conflict``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg.rows import class_row

from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.foreign_names import fit_name
from pgrepl.postgres.queries import load_query

__all__ = [
    "Condition",
    "TableRow",
    "TableState",
    "add_joining_table",
    "add_new_table",
    "add_tables",
    "add_unknown_table",
    "are_copied_after",
    "begin_copies",
    "begin_resync",
    "count_conflicts",
    "find_copy",
    "finish_resync",
    "finish_tables",
    "hold_names",
    "is_replicated",
    "read_conditions",
    "read_source_oids",
    "read_source_tables",
    "remove_table_row",
    "remove_tables",
    "restore_table",
    "set_ready",
    "set_source_oid",
]

TableState = Literal["pending", "copying", "ready"]
"""How far the copy of a table is.

``pending``: not copied. Set by basebackup when it makes the table, by the receiver and by replay
for a table that has changes but no copy, and by DDL that makes the rows void.
``copying``: set by basebackup and by a resync before its rows are written; it stays when they are
interrupted.
``ready``: whole, changes are applied. Set by basebackup and by a resync when all parts of it are
written, and by DDL that makes a table, which begins empty.
"""

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TableRow:
    """One table of a source as the target knows it, by its name on the source."""

    schema_name: str
    table_name: str
    state: TableState
    start_lsn: Lsn | None
    #: PostgreSQL's text of a ``pg_snapshot``.
    start_snapshot: str | None
    definition: str | None

    @property
    def key(self) -> _Name:
        """Schema and name on the source."""
        return self.schema_name, self.table_name


@dataclass(frozen=True, slots=True)
class Condition:
    """How a table is: copied, marked for a resync, parked."""

    state: TableState
    resync_reason: str | None
    parked_reason: str | None


def read_source_tables(connection: Connection, source_id: int) -> Sequence[TableRow]:
    """Return the tables of a source, in the order of their names."""
    with connection.cursor(row_factory=class_row(TableRow)) as cursor:
        return cursor.execute(
            "select schema_name, table_name, state, start_lsn, start_snapshot::text, definition"
            " from replication.source_table where source_id = %s order by 1, 2",
            (source_id,),
        ).fetchall()


def read_conditions(connection: Connection, source_id: int) -> Mapping[_Name, Condition]:
    """Return how the tables of a source are, by schema and name on the source."""
    rows = connection.execute(
        "select schema_name, table_name, t.state, t.resync_reason, p.reason"
        " from replication.source_table t"
        " left join replication.parked_table p using (source_id, schema_name, table_name)"
        " where source_id = %s",
        (source_id,),
    )
    return {(schema, name): Condition(*values) for schema, name, *values in rows}


def add_tables(
    connection: Connection, source_id: int, tables: Iterable[tuple[str, str, str, int]]
) -> None:
    """Record tables, each by schema, name, definition and OID, as not copied yet."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into replication.source_table"
            " (source_id, schema_name, table_name, definition, source_oid)"
            " values (%s, %s, %s, %s, %s)",
            [(source_id, *table) for table in tables],
        )


def add_joining_table(
    connection: Connection, source_id: int, name: _Name, definition: str, oid: int
) -> None:
    """Record a table that is being copied for the first time, whatever was noted of it before."""
    connection.execute(
        "insert into replication.source_table"
        " (source_id, schema_name, table_name, state, definition, source_oid)"
        " values (%s, %s, %s, 'copying', %s, %s)"
        " on conflict (source_id, schema_name, table_name) do update set state = 'copying',"
        " definition = excluded.definition, source_oid = excluded.source_oid,"
        " resync_reason = null, lost_lsn = null",
        (source_id, *name, definition, oid),
    )


def add_new_table(connection: Connection, source_id: int, name: _Name, start_lsn: Position) -> None:
    """Record a table that DDL made: its copy is whole from the first.

    The receiver may know already that it will lose changes.
    """
    connection.execute(
        "insert into replication.source_table as t"
        " (source_id, schema_name, table_name, state, start_lsn)"
        " values (%s, %s, %s, 'ready', %s)"
        " on conflict (source_id, schema_name, table_name) do update"
        " set state = 'ready', start_lsn = excluded.start_lsn"
        " where t.state = 'pending' and t.start_lsn is null and t.lost_lsn is not null",
        (source_id, *name, start_lsn),
    )


def set_source_oid(connection: Connection, source_id: int, name: _Name, oid: int) -> None:
    """Record which relation of the source a replicated table is."""
    connection.execute(
        "update replication.source_table set source_oid = %s"
        " where source_id = %s and schema_name = %s and table_name = %s"
        " and source_oid is distinct from %s",
        (oid, source_id, *name, oid),
    )


def read_source_oids(connection: Connection, source_id: int) -> Mapping[_Name, int]:
    """Return which relations of the source its tables are, of those that it is known of."""
    rows = connection.execute(
        "select schema_name::text, table_name::text, source_oid from replication.source_table"
        " where source_id = %s and source_oid is not null",
        (source_id,),
    )
    return {(schema, name): oid for schema, name, oid in rows}


def hold_names(
    connection: Connection, source_id: int, names: Collection[_Name]
) -> Mapping[_Name, int | None]:
    """Keep DDL from renaming or dropping tables until the transaction ends.

    Returned are those that are there, each with the relation of the source that it is.
    """
    rows = connection.execute(
        "select t.schema_name::text, t.table_name::text, t.source_oid::bigint"
        " from replication.source_table t"
        " join unnest(%s::text[], %s::text[]) as w (schema_name, table_name)"
        " on t.schema_name = w.schema_name and t.table_name = w.table_name"
        " where t.source_id = %s order by 1, 2 for key share of t",
        ([schema for schema, _ in names], [name for _, name in names], source_id),
    )
    return {(schema, name): oid for schema, name, oid in rows}


def add_unknown_table(connection: Connection, source_id: int, name: _Name) -> None:
    """Make a table known whose changes arrive though it was never copied."""
    connection.execute(
        "insert into replication.source_table (source_id, schema_name, table_name, resync_reason)"
        " values (%s, %s, %s, 'it has changes but was never copied') on conflict do nothing",
        (source_id, *(fit_name(connection, part) for part in name)),
    )


def begin_resync(connection: Connection, source_id: int, name: _Name) -> None:
    """Take a table in hand that is to be copied again."""
    # A loss that is noted from here on may be none of the copy's, and stays.
    connection.execute(
        "update replication.source_table set state = 'copying', resync_reason = null,"
        " lost_lsn = null"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *name),
    )


def begin_copies(
    connection: Connection,
    source_id: int,
    names: Collection[_Name],
    *,
    lsn: Lsn,
    snapshot: str | None,
) -> None:
    """Record under which snapshot tables are copied."""
    connection.execute(
        "update replication.source_table t set state = 'copying',"
        " start_lsn = %(lsn)s, start_snapshot = %(snapshot)s::pg_snapshot"
        " from unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema_name, table_name)"
        " where t.source_id = %(source)s and t.schema_name = w.schema_name"
        " and t.table_name = w.table_name",
        {
            "source": source_id,
            "schemas": [schema for schema, _ in names],
            "names": [name for _, name in names],
            "lsn": lsn,
            "snapshot": snapshot,
        },
    )


def finish_tables(connection: Connection, source_id: int, names: Collection[_Name]) -> int:
    """Mark those tables whose parts are all copied as ready, and return how many became so."""
    done = connection.execute(
        load_query("pgrepl.store.tables", "finish_tables"),
        {
            "source": source_id,
            "schemas": [schema for schema, _ in names],
            "names": [name for _, name in names],
        },
    )
    return done.rowcount


def set_ready(connection: Connection, source_id: int, name: _Name) -> None:
    """Record that the copy of a table is whole."""
    connection.execute(
        "update replication.source_table set state = 'ready', copied_at = now()"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *name),
    )


def finish_resync(connection: Connection, source_id: int, name: _Name, resync_id: int) -> None:
    """Record that a table has the rows that a resync copied, and under which snapshot."""
    connection.execute(
        "update replication.source_table t set state = 'ready', start_lsn = r.lsn,"
        " start_snapshot = r.snapshot, row_count = r.row_count, byte_count = r.byte_count,"
        " seconds = extract(epoch from clock_timestamp() - r.started_at), copied_at = now(),"
        " source_oid = r.source_oid"
        " from replication.resync r where r.resync_id = %s and t.source_id = %s"
        " and t.schema_name = %s and t.table_name = %s",
        (resync_id, source_id, *name),
    )


def restore_table(
    connection: Connection, source_id: int, name: _Name, state: str, reason: str | None
) -> None:
    """Take a table for what it was before a resync that is cancelled."""
    connection.execute(
        "update replication.source_table set state = %s,"
        " resync_reason = coalesce(resync_reason, %s)"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (state, reason, source_id, *name),
    )


def is_replicated(connection: Connection, source_id: int, name: _Name) -> bool:
    """Whether changes of a table are applied."""
    found = connection.execute(
        "select from replication.source_table"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *name),
    )
    return found.fetchone() is not None


def find_copy(
    connection: Connection, source_id: int, name: _Name, target_schema: str | None
) -> int | None:
    """Return the OID of the copy of a replicated table; None when there is none."""
    row = connection.execute(
        "select c.oid::bigint from replication.source_table t"
        " left join replication.target_table x using (source_id, schema_name, table_name)"
        # What is called like the table is that of another one.
        " left join replication.target_table y on (y.source_id, y.schema_name, y.target_name)"
        " = (t.source_id, t.schema_name, t.table_name)"
        " join pg_class c on c.relname = coalesce(x.target_name,"
        " case when y.source_id is null then t.table_name end)"
        " and c.relkind = 'r' join pg_namespace n on n.oid = c.relnamespace"
        " where t.source_id = %s and t.schema_name = %s and t.table_name = %s and n.nspname = %s",
        (source_id, *name, target_schema),
    ).fetchone()
    return None if row is None else int(row[0])


def are_copied_after(
    connection: Connection,
    source_id: int,
    names: Collection[_Name],
    *,
    xid: int,
    commit_lsn: Position,
) -> bool:
    """Whether the copies of all these tables were made after a transaction committed."""
    rows = connection.execute(
        "select coalesce(pg_visible_in_snapshot(%s::text::xid8, t.start_snapshot),"
        " t.start_lsn > %s)"
        " from unnest(%s::text[], %s::text[]) as w (schema, name)"
        " join replication.source_table t on t.source_id = %s"
        " and t.schema_name = w.schema and t.table_name = w.name",
        (
            *(xid, commit_lsn),
            *([schema for schema, _ in names], [name for _, name in names]),
            source_id,
        ),
    ).fetchall()
    return bool(rows) and all(is_in for (is_in,) in rows)


def remove_table_row(connection: Connection, source_id: int, name: _Name) -> None:
    """Forget that a table is replicated."""
    connection.execute(
        "delete from replication.source_table where source_id = %s"
        " and (schema_name, table_name) = (%s, %s)",
        (source_id, *name),
    )


def remove_tables(connection: Connection, source_id: int) -> None:
    """Forget all tables of a source, and what their copies were called."""
    connection.execute("delete from replication.source_table where source_id = %s", (source_id,))
    connection.execute("delete from replication.target_table where source_id = %s", (source_id,))


def count_conflicts(
    connection: Connection, source_id: int, name: _Name, *, missing: int, extra: int
) -> None:
    """Count rows of the target that were not as expected."""
    connection.execute(
        "insert into replication.conflict as c"
        " (source_id, schema_name, table_name, missing_count, extra_count)"
        " values (%s, %s, %s, %s, %s) on conflict (source_id, schema_name, table_name)"
        " do update set missing_count = c.missing_count + excluded.missing_count,"
        " extra_count = c.extra_count + excluded.extra_count, last_at = excluded.last_at",
        (source_id, *name, missing, extra),
    )
