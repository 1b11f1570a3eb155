"""What a copy has still to do: the rows of ``replication.copy_part``, ``copy_step``, ``left_out``.

So another run can go on from there. A resync has parts too, but no steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from uuid import UUID

from psycopg.rows import args_row, class_row

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = [
    "RUN",
    "CopyPart",
    "LeftOutRow",
    "PendingStep",
    "Phase",
    "TableProgress",
    "add_left_out",
    "add_parts",
    "add_steps",
    "clear_work",
    "fail_part",
    "finish_part",
    "finish_step",
    "leave_out_steps",
    "read_left_out",
    "read_parts_done",
    "read_progress",
    "read_steps",
    "remove_begun_parts",
    "remove_left_out",
    "remove_parts",
    "remove_plan",
    "take_part",
]

Phase = Literal["key", "attach", "property", "foreign_key", "validate", "valid_foreign_key", "view"]
"""When a statement of the schema runs after the data: in this order, one phase after the other."""

RUN = "run: "
"""What stands before the statement that makes what the copy has not."""

_Name = tuple[str, str]


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


class CopyPart(NamedTuple):
    """A row of ``replication.copy_part`` that a task has taken."""

    part_id: int
    schema_name: str
    table_name: str
    first_block: int | None
    end_block: int | None


class LeftOutRow(NamedTuple):
    """Something that the copy has not."""

    kind: str
    name: str
    reason: str


def add_steps(
    connection: Connection, source_id: int, steps: Iterable[tuple[Phase, str, str, str]]
) -> None:
    """Record what is to be done after the rows, in order: phase, schema, table, statement."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into replication.copy_step"
            " (source_id, step, phase, schema_name, table_name, statement)"
            " values (%s, %s, %s, %s, %s, %s)",
            [(source_id, number, *step) for number, step in enumerate(steps, 1)],
        )


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


def finish_step(connection: Connection, source_id: int, step: int) -> None:
    """Record that a step is done, in the transaction that does it."""
    connection.execute(
        "update replication.copy_step set is_done = true where source_id = %s and step = %s",
        (source_id, step),
    )


def add_left_out(connection: Connection, source_id: int, items: Iterable[LeftOutRow]) -> None:
    """Record what the copy has not."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into replication.left_out (source_id, kind, name, reason)"
            " values (%s, %s, %s, %s)",
            [(source_id, *item) for item in items],
        )


def leave_out_steps(connection: Connection, source_id: int) -> None:
    """Name the steps that were not done as skipped: they can be done after replay."""
    connection.execute(
        "insert into replication.left_out (source_id, kind, name, reason)"
        " select source_id, 'validity', schema_name || '.' || table_name,"
        " 'tables were copied at different moments; when replay has caught up, ' || %s || statement"
        " from replication.copy_step where source_id = %s and not is_done order by step",
        (RUN, source_id),
    )


def read_left_out(connection: Connection, source_id: int) -> Sequence[LeftOutRow]:
    """Return what the copy has not."""
    with connection.cursor(row_factory=args_row(LeftOutRow)) as cursor:
        return cursor.execute(
            "select kind, name, reason from replication.left_out where source_id = %s",
            (source_id,),
        ).fetchall()


def remove_left_out(connection: Connection, source_id: int, item: LeftOutRow) -> None:
    """Forget what the copy has by now."""
    connection.execute(
        "delete from replication.left_out"
        " where source_id = %s and kind = %s and name = %s and reason = %s",
        (source_id, *item),
    )


def add_parts(
    connection: Connection,
    source_id: int,
    run_id: UUID,
    parts: Iterable[tuple[str, str, int | None, int | None, int]],
) -> None:
    """Record what a run copies: schema, table, first block, the block after the last, bytes."""
    with (
        connection.cursor() as cursor,
        cursor.copy(
            "copy replication.copy_part (run_id, source_id, schema_name, table_name,"
            " first_block, end_block, size_bytes) from stdin"
        ) as copy,
    ):
        for part in parts:
            copy.write_row((run_id, source_id, *part))


def take_part(connection: Connection, run_id: UUID) -> CopyPart | None:
    """Take a part of a run that nobody has, the biggest, until the open transaction ends."""
    with connection.cursor(row_factory=args_row(CopyPart)) as cursor:
        return cursor.execute(
            "select part_id, schema_name, table_name, first_block, end_block"
            " from replication.copy_part"
            " where run_id = %s and row_count is null and error is null"
            " order by size_bytes desc, part_id limit 1 for update skip locked",
            (run_id,),
        ).fetchone()


def finish_part(
    connection: Connection, part_id: int, *, row_count: int, byte_count: int, seconds: float
) -> None:
    """Record that a part is copied, in the transaction that writes its rows."""
    connection.execute(
        "update replication.copy_part set row_count = %s, byte_count = %s, seconds = %s"
        " where part_id = %s",
        (row_count, byte_count, seconds, part_id),
    )


def fail_part(connection: Connection, part_id: int, error: str) -> None:
    """Keep others from taking a part that failed."""
    connection.execute(
        "update replication.copy_part set error = %s where part_id = %s", (error, part_id)
    )


def remove_begun_parts(
    connection: Connection, source_id: int, names: Collection[_Name]
) -> Sequence[_Name]:
    """Remove what an earlier run had to copy of tables that are not ready, and return those.

    Waits for tasks of a dead run that are still at work; they find nothing more after this.
    """
    begun = connection.execute(
        "delete from replication.copy_part p using replication.source_table t,"
        " unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema_name, table_name)"
        " where p.source_id = %(source)s and t.source_id = p.source_id"
        " and t.schema_name = p.schema_name and t.table_name = p.table_name"
        " and w.schema_name = p.schema_name and w.table_name = p.table_name"
        " and t.state <> 'ready' returning p.schema_name, p.table_name",
        _keys(source_id, names),
    ).fetchall()
    return sorted({(schema, name) for schema, name in begun})


def remove_parts(connection: Connection, source_id: int, names: Collection[_Name]) -> None:
    """Remove what was to be copied of some tables; waits for tasks that are at work on it."""
    connection.execute(
        "delete from replication.copy_part p"
        " using unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema_name, table_name)"
        " where p.source_id = %(source)s and w.schema_name = p.schema_name"
        " and w.table_name = p.table_name",
        _keys(source_id, names),
    )


def clear_work(connection: Connection, source_id: int) -> None:
    """Remove the lists of what was to be done, when it is done."""
    connection.execute("delete from replication.copy_part where source_id = %s", (source_id,))
    connection.execute("delete from replication.copy_step where source_id = %s", (source_id,))


def remove_plan(connection: Connection, source_id: int) -> None:
    """Forget the steps and what was skipped, because what was made is dropped."""
    connection.execute("delete from replication.copy_step where source_id = %s", (source_id,))
    connection.execute("delete from replication.left_out where source_id = %s", (source_id,))


def read_progress(connection: Connection, source_id: int) -> Sequence[TableProgress]:
    """Return how far each table is, with what is being written at this moment."""
    with connection.cursor(row_factory=class_row(TableProgress)) as cursor:
        return cursor.execute(
            load_query("pgrepl.store.tables", "copy_progress"), {"source": source_id}
        ).fetchall()


def read_parts_done(
    connection: Connection, source_id: int, names: Collection[_Name]
) -> Mapping[_Name, tuple[int, int]]:
    """Return of tables whose parts are all copied how many rows and bytes they have."""
    rows = connection.execute(
        "select p.schema_name::text, p.table_name::text, sum(p.row_count)::bigint,"
        " sum(p.byte_count)::bigint from replication.copy_part p"
        " join unnest(%(schemas)s::text[], %(names)s::text[]) as w (schema_name, table_name)"
        " on w.schema_name = p.schema_name and w.table_name = p.table_name"
        " where p.source_id = %(source)s group by 1, 2"
        " having bool_and(p.row_count is not null)",
        _keys(source_id, names),
    )
    return {(schema, name): (row_count, size) for schema, name, row_count, size in rows}


def _keys(source_id: int, names: Collection[_Name]) -> dict[str, object]:
    """Return tables as the parameters of a query."""
    return {
        "source": source_id,
        "schemas": [schema for schema, _ in names],
        "names": [name for _, name in names],
    }
