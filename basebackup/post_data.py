"""After the data: keys, indexes and foreign keys, the values of sequences, statistics.

Statements of one table run one after the other, those of different tables side by side. Each is one
transaction with its row in ``replication.copy_step``: interrupted, the next run does the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby

from psycopg import errors
from psycopg.sql import SQL, Identifier

from pgrepl.basebackup.parallel_sessions import run_in_sessions
from pgrepl.basebackup.schema.plan import Phase
from pgrepl.config.dsn import Endpoint
from pgrepl.config.naming import shown_name
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.tables.copy_work import PendingStep, finish_step, read_steps
from pgrepl.store.tables.places import Places

__all__ = ["analyze", "copy_sequences", "run_steps"]

logger = logging.getLogger(__name__)

#: Each is locked until its query ends, on either side; the lock table of a server has at least
#: 6,400 places for all sessions together by default.
_SEQUENCES_AT_ONCE = 500

#: What a sequence holds, and whether it was drawn from: "last_value" and "is_called".
_Value = tuple[int, bool]


def run_steps(
    connection: Connection, endpoint: Endpoint, source_id: int, phases: Iterable[Phase], jobs: int
) -> None:
    """Run what is left of the phases, one phase after the other, in sessions of their own."""
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

    run_in_sessions(endpoint, [steps] if jobs == 1 else _group(steps), run_group, jobs)


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
        finish_step(connection, source_id, step.step)
    reach("basebackup.step_done")


def copy_sequences(
    source: Connection,
    source_endpoint: Endpoint,
    target: Connection,
    target_endpoint: Endpoint,
    schemas: Mapping[str, str],
) -> None:
    """Give every sequence of the copy the value that the source's has now.

    The source may have dropped or altered some since. Those stay as they are: what replay applies
    later, and its housekeeping, sees to them.
    """
    with translated(target_endpoint, "cannot read the sequences"):
        found: list[tuple[str, str]] = target.execute(
            "select n.nspname::text, c.relname::text from pg_class c join pg_namespace n"
            " on n.oid = c.relnamespace where c.relkind = 'S' and n.nspname = any (%s)"
            " order by 1, 2",
            (list(schemas.values()),),
        ).fetchall()
    names = {target_schema: schema for schema, target_schema in schemas.items()}
    gone: list[str] = []
    refused: list[str] = []
    for first in range(0, len(found), _SEQUENCES_AT_ONCE):
        # By their names on the source.
        some = {
            (names[schema], name): (schema, name)
            for schema, name in found[first : first + _SEQUENCES_AT_ONCE]
        }
        values = _read_values(source, source_endpoint, some)
        with translated(target_endpoint, "cannot set the sequences"):
            done = _set_values(target, {some[key]: value for key, value in values.items()})
        gone += [shown_name(*key) for key in some if key not in values]
        refused += [shown_name(*key) for key in values if some[key] not in done]
    if gone:
        logger.warning("sequences that the source dropped stay: %s", ", ".join(gone))
    if refused:
        logger.warning(
            "sequences whose values are outside their limits here stay: %s", ", ".join(refused)
        )


def _read_values(
    source: Connection, endpoint: Endpoint, keys: Collection[tuple[str, str]]
) -> Mapping[tuple[str, str], _Value]:
    """Return the values of those sequences that still exist."""
    with translated(endpoint, "cannot read the sequences"):
        rows = source.execute(
            "select s.schemaname::text, s.sequencename::text, s.last_value"
            " from unnest(%s::text[], %s::text[]) as w (schema_name, sequence_name)"
            " join pg_sequences s on (s.schemaname, s.sequencename) = (schema_name, sequence_name)",
            ([schema for schema, _ in keys], [name for _, name in keys]),
        ).fetchall()
    values: dict[tuple[str, str], _Value] = {}
    for schema, name, last_value in rows:
        if last_value is not None:
            values[schema, name] = last_value, True
            continue
        # Never drawn from, or not for this role to use: only the sequence itself can tell.
        query = SQL("select last_value, is_called from {}").format(Identifier(schema, name))
        with (
            translated(endpoint, f"cannot read sequence {schema}.{name}"),
            suppress(errors.UndefinedTable),
        ):
            ((value, is_called),) = source.execute(query).fetchall()
            values[schema, name] = value, is_called
    return values


def _set_values(
    target: Connection, values: Mapping[tuple[str, str], _Value]
) -> Collection[tuple[str, str]]:
    """Set sequences of the target, and return those that can have such a value."""
    done = target.execute(
        load_query("pgrepl.basebackup", "set_sequences"),
        {
            "schemas": [schema for schema, _ in values],
            "sequences": [name for _, name in values],
            "values": [value for value, _ in values.values()],
            "called": [is_called for _, is_called in values.values()],
        },
    ).fetchall()
    return {(schema, name) for schema, name, _ in done}


def analyze(
    connection: Connection,
    endpoint: Endpoint,
    tables: Iterable[tuple[str, str]],
    places: Places,
    jobs: int,
) -> None:
    """Collect statistics; ANALYZE of a partitioned table takes in its partitions.

    Which table is a partition of which, the target knows: the source may have changed that since.
    """
    keys = list(filter(None, map(places.find, tables)))
    with translated(endpoint, "cannot read the catalogue"):
        roots: list[tuple[str, str]] = connection.execute(
            load_query("pgrepl.basebackup", "copied_roots"),
            {
                "schemas": [schema for schema, _ in keys],
                "names": [name for _, name in keys],
                "ours": list(places.schemas.values()),
            },
        ).fetchall()

    def run(session: Connection, root: tuple[str, str]) -> None:
        with translated(endpoint, f"cannot analyze {root[0]}.{root[1]}"):
            session.execute(SQL("analyze {}").format(Identifier(*root)))

    run_in_sessions(endpoint, roots, run, jobs)
