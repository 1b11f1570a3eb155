"""What a transaction with DDL costs on the target: a migration of many statements, replayed.

A source with capture and a number of tables, and a target with its copy. The migration runs on the
source, each statement a transaction of its own, and is received; what is timed is
``pgrepl replay --once`` over it.
"""

from __future__ import annotations

import cProfile
import resource
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bench.measuring.cpu import cpu_seconds
from pgrepl.config.model import Plugin
from pgrepl.ddl_capture import Applier, install
from pgrepl.replayer import ReplaySettings
from pgrepl.throwaway import Cluster
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.support.database import Database
from tests.support.running.pipeline import Pipeline

__all__ = ["STATEMENTS", "TABLES", "measure_migration", "measure_migrations"]

#: How many statements, and how many tables that they have nothing to do with.
STATEMENTS = 1_000
TABLES = 200

#: What is done to a table, one statement a transaction.
_STATEMENTS = (
    "create table m{n} (id bigint generated always as identity primary key, name text, at date)",
    "alter table m{n} add price numeric(12, 2) not null default 0",
    "insert into m{n} (name) select 'n' || g from generate_series(1, 20) g",
    "create index on m{n} (name)",
    "alter table m{n} add constraint m{n}_price check (price >= 0)",
    "alter table m{n} add parent bigint references m{n} (id)",
    "alter table m{n} alter name type varchar(200)",
    "create unique index on m{n} (name, at)",
    "alter table m{n} rename price to cost",
    "comment on column m{n}.cost is 'in cents'",
    "alter table m{n} alter at set default now()",
    "alter table m{n} drop column at",
)


def measure_migrations(
    plugins: list[Plugin], found: list[dict[str, Any]], save: Callable[[], None]
) -> None:
    """Measure the same migration with each plugin."""
    for plugin in plugins:
        found.append({"plugin": plugin, **measure_migration(plugin, STATEMENTS, TABLES)})
        save()
        print(f"  {found[-1]}", flush=True)


def measure_migration(
    plugin: Plugin, statements: int, tables: int, profile: str | None = None
) -> dict[str, Any]:
    """Return what a transaction took; ``profile``: a file for what the replaying process did."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(Cluster(settings=dict(LOGICAL_DECODING)))
            for _ in ("source", "target")
        ]
        for server in servers:
            server.create_database("shop")
        source, target = (Database(server, "shop") for server in servers)
        pipeline = _prepare(source, target, plugin, tables)
        _migrate(source, statements)
        pipeline.receive()
        return _measure(pipeline, statements, profile)


def _prepare(source: Database, target: Database, plugin: Plugin, tables: int) -> Pipeline:
    """Make and copy the tables that the migration has nothing to do with."""
    with source.connect() as connection:
        for number in range(tables):
            connection.execute(f"create table other{number} (id int primary key, v text)".encode())
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    return pipeline


def _migrate(source: Database, statements: int) -> None:
    with source.connect() as connection:
        for number in range(statements):
            statement = _STATEMENTS[number % len(_STATEMENTS)]
            table = number // len(_STATEMENTS)
            connection.execute(statement.format(n=table).encode())


def _measure(pipeline: Pipeline, count: int, profile: str | None) -> dict[str, Any]:
    server = pipeline.target.cluster
    profiler = cProfile.Profile()
    began, own, servers = time.monotonic(), _own_cpu(), cpu_seconds(server)
    if profile:
        profiler.enable()
    result = pipeline.replay(ReplaySettings())
    if profile:
        profiler.disable()
        profiler.dump_stats(profile)
    wall_s, own, servers = time.monotonic() - began, _own_cpu() - own, cpu_seconds(server) - servers
    outcomes = Counter(
        outcome
        for (outcome,) in pipeline.target.rows("select outcome from replication.ddl_history")
    )
    return {
        "transactions": count,
        "outcomes": dict(outcomes),
        "parked": len(result.parked),
        "wall_ms": round(wall_s / count * 1000, 1),
        "replay_ms": round(own / count * 1000, 1),
        "target_ms": round(servers / count * 1000, 1),
    }


def _own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
