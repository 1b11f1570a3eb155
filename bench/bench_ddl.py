"""What a transaction with DDL costs on the target: a migration of many statements, replayed.

    PYTHONPATH=. python bench/bench_ddl.py [--statements 1000] [--tables 200] [--plugin pgoutput]

A throwaway source with capture and a number of tables, a throwaway target with its copy. The
migration runs on the source, each statement a transaction of its own, and is received; what is
timed is ``pgrepl replay --once`` over it. CPU seconds say more than the clock where the machine has
other work. ``--profile FILE`` writes what the replaying process did, for ``pstats``.
"""

from __future__ import annotations

import argparse
import cProfile
import resource
import time
from collections import Counter
from contextlib import ExitStack
from typing import get_args

from bench.measuring.cpu import cpu_seconds
from pgrepl.config.model import Plugin
from pgrepl.ddl_capture import Applier, install
from pgrepl.replayer import ReplaySettings
from pgrepl.throwaway import Cluster
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.support.database import Database
from tests.support.running.pipeline import Pipeline

#: What is done to a table, one statement a transaction.
STATEMENTS = (
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


def main() -> None:
    """Print the cost of a transaction."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=1000)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--plugin", choices=get_args(Plugin), default="pgoutput")
    parser.add_argument("--profile")
    given = parser.parse_args()
    with ExitStack() as stack:
        servers = [
            stack.enter_context(Cluster(settings=dict(LOGICAL_DECODING)))
            for _ in ("source", "target")
        ]
        for server in servers:
            server.create_database("shop")
        source, target = (Database(server, "shop") for server in servers)
        pipeline = prepare(source, target, given.plugin, given.tables)
        count = migrate(source, given.statements)
        pipeline.receive()
        measure(pipeline, count, given.profile)


def prepare(source: Database, target: Database, plugin: Plugin, tables: int) -> Pipeline:
    """Make and copy the tables that the migration has nothing to do with."""
    with source.connect() as connection:
        for number in range(tables):
            connection.execute(f"create table other{number} (id int primary key, v text)".encode())
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    return pipeline


def migrate(source: Database, statements: int) -> int:
    """Run the migration, and return the number of its transactions."""
    with source.connect() as connection:
        for number in range(statements):
            statement = STATEMENTS[number % len(STATEMENTS)]
            table = number // len(STATEMENTS)
            connection.execute(statement.format(n=table).encode())
    return statements


def measure(pipeline: Pipeline, count: int, profile: str | None) -> None:
    """Replay, and print what it took."""
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
    print(f"{count} transactions: {dict(outcomes)}, parked {len(result.parked)}")
    print(
        f"a transaction: {wall_s / count * 1000:.1f} ms; CPU: replay {own / count * 1000:.1f} ms,"
        f" target {servers / count * 1000:.1f} ms",
        flush=True,
    )


def _own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
