"""The rows of ``replication.source`` and ``replication.source_table``.

Nothing but the target holds state. Whoever starts reads it here and goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg.rows import class_row

from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection

__all__ = [
    "SourceRow",
    "SourceState",
    "TableRow",
    "TableState",
    "add_source",
    "add_tables",
    "find_source",
    "read_source_tables",
    "read_target_schemas",
    "set_copying",
    "set_creating",
    "set_streaming",
]

SourceState = Literal["creating", "copying", "streaming"]
TableState = Literal["pending", "copying", "ready"]


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One source as the target knows it."""

    source_id: int
    name: str
    slot: str
    dbname: str
    system_identifier: int
    timeline: int
    state: SourceState
    consistent_point: Lsn | None


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
    def key(self) -> tuple[str, str]:
        """Schema and name on the source."""
        return self.schema_name, self.table_name


def find_source(connection: Connection, name: str) -> SourceRow | None:
    """Return the source of this name, or None when nothing of it was ever copied."""
    with connection.cursor(row_factory=class_row(SourceRow)) as cursor:
        return cursor.execute(
            "select source_id, name, slot, dbname, system_identifier, timeline, state,"
            " consistent_point from replication.source where name = %s",
            (name,),
        ).fetchone()


def add_source(
    connection: Connection,
    *,
    name: str,
    slot: str,
    dbname: str,
    system_identifier: int,
    timeline: int,
) -> int:
    """Record a source before anything of it is made, and return its number."""
    ((source_id,),) = connection.execute(
        "insert into replication.source (name, slot, dbname, system_identifier, timeline)"
        " values (%s, %s, %s, %s, %s) returning source_id",
        (name, slot, dbname, system_identifier, timeline),
    ).fetchall()
    return int(source_id)


def set_creating(connection: Connection, source_id: int) -> None:
    """Forget the slot: what there is of the source is to be made anew."""
    connection.execute(
        "update replication.source set state = 'creating', consistent_point = null"
        " where source_id = %s",
        (source_id,),
    )


def set_copying(connection: Connection, source_id: int, consistent_point: Lsn) -> None:
    """Record the slot's consistent point: from now on the slot is worth keeping."""
    connection.execute(
        "update replication.source set state = 'copying', consistent_point = %s"
        " where source_id = %s",
        (consistent_point, source_id),
    )
    # It is there again, whatever became of its removal.
    connection.execute(
        "delete from replication.failure where source_id = %s and stage = 'drop'", (source_id,)
    )


def set_streaming(connection: Connection, source_id: int) -> None:
    """Let a receiver start."""
    connection.execute(
        "update replication.source set state = 'streaming' where source_id = %s", (source_id,)
    )


def read_target_schemas(connection: Connection, source_id: int) -> dict[str, str]:
    """Return the schemas that pgrepl made for a source: source schema to target schema."""
    rows = connection.execute(
        "select source_schema, target_schema from replication.target_schema where source_id = %s",
        (source_id,),
    )
    return dict(rows.fetchall())


def read_source_tables(connection: Connection, source_id: int) -> Sequence[TableRow]:
    """Return the tables of a source, in the order of their names."""
    with connection.cursor(row_factory=class_row(TableRow)) as cursor:
        return cursor.execute(
            "select schema_name, table_name, state, start_lsn, start_snapshot::text, definition"
            " from replication.source_table where source_id = %s order by 1, 2",
            (source_id,),
        ).fetchall()


def add_tables(
    connection: Connection, source_id: int, tables: Iterable[tuple[str, str, str]]
) -> None:
    """Record tables, each by schema, name and definition, as not copied yet."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into replication.source_table (source_id, schema_name, table_name, definition)"
            " values (%s, %s, %s, %s)",
            [(source_id, *table) for table in tables],
        )
