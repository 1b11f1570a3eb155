"""What the capture of DDL costs on a source: the same DDL with and without it, side by side.

    PYTHONPATH=. python bench/bench_capture.py [--rounds 15] [--tables 20]

Two databases of one throwaway server, one of them with the event triggers. Rounds alternate between
them, and the median round counts. "one session" is a migration that runs on; "a session each" pays
for what a new session has to plan.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import psycopg

from pgrepl.config.dsn import Dsn
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import SchemaTemplate, TableSelection
from pgrepl.ddl_capture import install
from pgrepl.throwaway import Cluster

#: Durability on, as on a real source: DDL there waits for the disk too.
SETTINGS = {"wal_level": "logical", "fsync": "on", "full_page_writes": "on"}
STATEMENTS = (
    "create table t{n} (id bigint primary key, name text not null, at timestamptz default now())",
    "alter table t{n} add price numeric(12, 2) not null default 0",
    "alter table t{n} add check (price >= 0)",
    "create index on t{n} (name)",
    "alter table t{n} alter name type varchar(200)",
    "alter table t{n} drop column at",
    "drop table t{n}",
)
TEMPORARY = ("create temp table x{n} (id int)", "drop table x{n}")


def main() -> None:
    """Print a line for each way of running DDL."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tables", type=int, default=20)
    given = parser.parse_args()
    with Cluster(settings=SETTINGS) as cluster:
        with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
            connection.execute("create database plain")
            connection.execute("create database captured")
        install(_config(cluster.dsn("captured")))
        ways: dict[str, Callable[[str], int]] = {
            "one session": lambda dsn: run_in_one(dsn, STATEMENTS, given.tables),
            "one transaction": lambda dsn: run_in_one(dsn, STATEMENTS, given.tables, is_one=True),
            "a session each": lambda dsn: run_in_many(dsn, STATEMENTS, max(1, given.tables // 10)),
            "temporary tables": lambda dsn: run_in_one(dsn, TEMPORARY, given.tables),
        }
        for name, way in ways.items():
            print(f"{name:18}", *measure(cluster, way, given.rounds), flush=True)


def measure(cluster: Cluster, way: Callable[[str], int], rounds: int) -> Iterator[str]:
    """Yield the medians per statement, and their ratio."""
    times: dict[str, list[float]] = {"plain": [], "captured": []}
    for number in range(rounds + 1):
        for database in ("plain", "captured") if number % 2 else ("captured", "plain"):
            began = time.perf_counter()
            count = way(cluster.dsn(database))
            # The first round warms up.
            if number:
                times[database].append((time.perf_counter() - began) / count)
    plain, captured = (statistics.median(times[name]) * 1000 for name in ("plain", "captured"))
    yield f"without {plain:6.3f} ms  with {captured:6.3f} ms  a statement: {captured / plain:.2f}"


def run_in_one(dsn: str, statements: tuple[str, ...], tables: int, *, is_one: bool = False) -> int:
    """Run the statements for some tables in one session, and return how many there were."""
    with psycopg.connect(dsn, autocommit=not is_one) as connection:
        for number in range(tables):
            for statement in statements:
                connection.execute(statement.format(n=number).encode())
    return tables * len(statements)


def run_in_many(dsn: str, statements: tuple[str, ...], tables: int) -> int:
    """Run each statement in a session of its own."""
    for number in range(tables):
        for statement in statements:
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(statement.format(n=number).encode())
    return tables * len(statements)


def _config(dsn: str) -> SourceConfig:
    return SourceConfig(
        name="shop",
        dsn=Dsn(dsn),
        slot="pgrepl_shop",
        schema=SchemaTemplate("{db}_{schema}"),
        selection=TableSelection.of(["*.*"]),
    )


if __name__ == "__main__":
    main()
