"""After the data: keys, indexes and foreign keys, the values of sequences, statistics.

Statements of one table run one after the other, those of different tables side by side. Each is one
transaction with its row in ``replication.copy_step``: interrupted, the next run does the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from psycopg.sql import SQL, Identifier

from pgrepl.basebackup.lanes import run_lanes
from pgrepl.basebackup.sift import Phase
from pgrepl.basebackup.state import PendingStep, read_steps
from pgrepl.catalogue import SourceTable
from pgrepl.dsn import Endpoint
from pgrepl.failpoint import reach
from pgrepl.postgres import Connection, connect
from pgrepl.sqlstate import translated

__all__ = ["analyze", "copy_sequences", "run_steps"]

_STAGE = "basebackup"


def run_steps(endpoint: Endpoint, source_id: int, phases: Iterable[Phase], jobs: int) -> None:
    """Run what is left of the phases, one phase after the other."""
    with connect(endpoint, _STAGE) as connection:
        pending = read_steps(connection, source_id)
    for phase in phases:
        steps = [step for step in pending if step.phase == phase]
        # The other phases change the catalogue only, and lock more than one table.
        if steps:
            _run_phase(endpoint, source_id, steps, jobs if phase in ("key", "validate") else 1)


def _run_phase(endpoint: Endpoint, source_id: int, steps: Sequence[PendingStep], jobs: int) -> None:
    def run_group(connection: Connection, group: Sequence[PendingStep]) -> None:
        for step in group:
            _run_step(endpoint, connection, source_id, step)

    run_lanes(endpoint, [steps] if jobs == 1 else _group(steps), run_group, jobs)


def _group(steps: Sequence[PendingStep]) -> list[list[PendingStep]]:
    """Put the steps of each table together; the biggest table comes first, lest it ends last."""

    def table(step: PendingStep) -> tuple[int, str, str]:
        return -step.size_bytes, step.schema_name, step.table_name

    return [list(group) for _, group in groupby(sorted(steps, key=table), key=table)]


def _run_step(
    endpoint: Endpoint, connection: Connection, source_id: int, step: PendingStep
) -> None:
    action = f"cannot run the {step.phase} step of {step.schema_name}.{step.table_name}"
    with translated(endpoint, action), connection.transaction():
        # A function that a view needs may call one that comes later.
        connection.execute("set local check_function_bodies = off")
        connection.execute(step.statement.encode())
        connection.execute(
            "update replication.copy_step set is_done = true where source_id = %s and step = %s",
            (source_id, step.step),
        )
    reach("basebackup.step_done")


def copy_sequences(
    source: Connection,
    source_endpoint: Endpoint,
    target: Connection,
    target_endpoint: Endpoint,
    schemas: Mapping[str, str],
) -> int:
    """Give every sequence of the copy the value that the source's has now."""
    with translated(target_endpoint, "cannot read the sequences"):
        found = target.execute(
            "select n.nspname, c.relname from pg_class c join pg_namespace n"
            " on n.oid = c.relnamespace where c.relkind = 'S' and n.nspname = any (%s)",
            (list(schemas.values()),),
        ).fetchall()
    names = {target_schema: schema for schema, target_schema in schemas.items()}
    for target_schema, name in found:
        sequence = Identifier(names[target_schema], name)
        with translated(source_endpoint, f"cannot read sequence {names[target_schema]}.{name}"):
            ((value, is_called),) = source.execute(
                SQL("select last_value, is_called from {}").format(sequence)
            ).fetchall()
        with translated(target_endpoint, f"cannot set sequence {target_schema}.{name}"):
            target.execute(
                "select setval(%s::regclass, %s, %s)",
                (Identifier(target_schema, name).as_string(), value, is_called),
            )
    return len(found)


def analyze(
    endpoint: Endpoint, tables: Iterable[SourceTable], schemas: Mapping[str, str], jobs: int
) -> None:
    """Collect statistics; ANALYZE of a partitioned table takes in its partitions."""
    roots = {(table.root_schema, table.root_name) for table in tables}

    def run(connection: Connection, root: tuple[str, str]) -> None:
        with translated(endpoint, f"cannot analyze the copy of {root[0]}.{root[1]}"):
            connection.execute(SQL("analyze {}").format(Identifier(schemas[root[0]], root[1])))

    run_lanes(endpoint, sorted(roots), run, jobs)
