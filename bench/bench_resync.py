"""How fast a table is copied again as a whole, beside the basebackup of the same table.

    PYTHONPATH=. python bench/bench_resync.py [--rows 500000] [--jobs 2]

Two throwaway servers. "equal": no row differs, so that none is written; "1 %": every hundredth row
was changed on the target; "all": every row was. "new": the table was never copied.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg

from pgrepl.basebackup.report import CopyOptions, Phase
from pgrepl.basebackup.run import copy_source
from pgrepl.config.dsn import Dsn
from pgrepl.config.model import Config, ReplayConfig, SourceConfig, SparkConfig, TargetConfig
from pgrepl.config.naming import SchemaTemplate, TableSelection
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from pgrepl.store.copy_work import TableProgress
from pgrepl.throwaway import Cluster

TABLE = (
    "create table {name} (id bigint primary key, customer integer not null, at timestamptz,"
    " amount numeric(12, 2), note text)"
)
ROWS = (
    "insert into {name} select g, g % 1000, now(), g / 100.0, repeat('n', 60)"
    " from generate_series(1, {rows}) g"
)


class _Quiet:
    def begin(self, _: Phase) -> None:
        """Say nothing."""

    def show(self, _: Sequence[TableProgress]) -> None:
        """Show nothing."""


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    with Cluster() as source, Cluster() as target:
        config = _config(source.dsn(), target.dsn())
        _make(source, "orders", given.rows)
        size = _value(source, "select pg_table_size('orders')") / 2**20
        seconds = _timed(lambda: _copy(config, given.jobs))
        _say("basebackup", size, seconds)
        for name, change in (
            ("equal", None),
            ("1 %", "update shop_public.orders set note = 'x' where id % 100 = 0"),
            ("all", "update shop_public.orders set note = 'x'"),
        ):
            if change is not None:
                _run(target, change)
            _say(f"resync, {name}", size, _timed(lambda: _resync(config, "orders", given.jobs)))
        _make(source, "fresh", given.rows)
        _say("resync, new", size, _timed(lambda: _resync(config, "fresh", given.jobs)))


def _config(source: str, target: str) -> Config:
    shop = SourceConfig(
        name="shop",
        dsn=Dsn(source),
        slot="pgrepl_shop",
        schema=SchemaTemplate("shop_{schema}"),
        selection=TableSelection.of(["public.*"]),
    )
    return Config(
        path=Path("pgrepl.toml"),
        target=TargetConfig(dsn=Dsn(target)),
        spark=SparkConfig(master="local[2]"),
        replay=ReplayConfig(),
        sources={"shop": shop},
    )


def _copy(config: Config, jobs: int) -> None:
    copy_source(config, config.sources["shop"], CopyOptions(jobs=jobs), _Quiet())


def _resync(config: Config, table: str, jobs: int) -> None:
    options = ResyncOptions(tables=TableSelection.of([f"public.{table}"]), jobs=jobs, way="whole")
    copies = TableCopies(config)
    resync_tables(
        *(config, config.sources["shop"], options, _Quiet()),
        lambda _: copies.apply_waiting("shop", [("public", table)]),
    )


def _make(cluster: Cluster, name: str, rows: int) -> None:
    _run(cluster, TABLE.format(name=name))
    _run(cluster, ROWS.format(name=name, rows=rows))


def _run(cluster: Cluster, statement: str) -> None:
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(statement.encode())


def _value(cluster: Cluster, query: str) -> float:
    with psycopg.connect(cluster.dsn()) as connection:
        ((value,),) = connection.execute(query.encode()).fetchall()
    return float(value)


def _timed(act: Callable[[], None]) -> float:
    begin = time.monotonic()
    act()
    return time.monotonic() - begin


def _say(what: str, size: float, seconds: float) -> None:
    print(f"{what:16} {seconds:6.1f} s {size / seconds:8.1f} MB/s", flush=True)


if __name__ == "__main__":
    main()
