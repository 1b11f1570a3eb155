"""Schema changes on two sources while pgbench runs on both, received and replayed all the time."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from pgrepl.ddl_capture import Applier, install
from pgrepl.receiver import Receiver
from pgrepl.replayer import Replayer
from pgrepl.resync import Resyncer
from tests.support.running.copying import make_config, structure
from tests.support.running.pipeline import QUICK, Pipeline
from tests.support.workloads.pgbench import make_pgbench_tables, pgbench

pytestmark = pytest.mark.usefixtures("one_spark_session")

CHANGES = (
    "alter table pgbench_accounts add column club text not null default 'none'",
    """begin; alter table pgbench_tellers add column rank integer;
       update pgbench_tellers set rank = tid % 3; commit""",
    "alter table pgbench_accounts rename column filler to remark",
    "update pgbench_accounts set remark = 'renamed' where aid % 1000 = 0",
    "create view rich as select aid, bid, abalance from pgbench_accounts where abalance > 0",
    "create table rich_once as select * from rich",
    "alter table pgbench_branches add column luck double precision default random()",
    "alter table pgbench_history alter column delta type bigint",
    "create index concurrently on pgbench_accounts (bid)",
    """create table voucher (code text, place integer, aid integer references pgbench_accounts,
                             primary key (code, place)) partition by list (place)""",
    "create table voucher_1 partition of voucher for values in (1)",
    "insert into voucher select 'V' || aid, 1, aid from pgbench_accounts where aid <= 50",
    "create type mood as enum ('good', 'bad')",
    "alter table voucher add column mood mood default 'good'",
    "alter type mood add value 'so so'",
    "update voucher set mood = 'so so' where aid < 9",
    """begin; truncate voucher; alter table voucher add value integer;
       insert into voucher values ('X', 1, 1, 'bad', 7); commit""",
    "create table voucher_2 partition of voucher for values in (2)",
    "insert into voucher values ('Y', 2, 2, 'good', 8)",
    "alter table voucher detach partition voucher_2",
    "alter table pgbench_tellers alter column rank set default 1, add check (rank < 9)",
    "drop view rich; drop table rich_once",
)


@contextmanager
def running(pipelines: Sequence[Pipeline]) -> Iterator[None]:
    """Receive each source, and replay all of them, until the block ends."""
    config = make_config(pipelines[0].target, *(pipeline.source for pipeline in pipelines))
    replayer = Replayer(
        config,
        Applier(config),
        replace(QUICK, pace_s=0.2, idle_s=0.5),
        resync=Resyncer(config),
    )
    services: list[Receiver | Replayer] = [replayer]
    services += [Receiver(config, source) for source in config.sources.values()]
    threads = [threading.Thread(target=service.run) for service in services]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for service in services:
            service.stop()
        for thread in threads:
            thread.join()


@pytest.mark.soak
def test_schema_changes_follow_while_pgbench_runs(source_cluster, make_database, target, binaries):
    pipelines = []
    for name in ("bench", "more"):
        pipeline = Pipeline(make_database(source_cluster, prefix=name), target)
        make_pgbench_tables(binaries, pipeline.source)
        pipeline.ddl = Applier(pipeline.config)
        pipeline.resync = Resyncer(pipeline.config)
        install(pipeline.config.sources[pipeline.source.name])
        pipeline.copy()
        pipelines.append(pipeline)
    one, two = pipelines
    with (
        running(pipelines),
        pgbench(binaries, one.source) as first,
        pgbench(binaries, two.source) as second,
    ):
        for change in CHANGES:
            for pipeline, bench in ((one, first), (two, second)):
                pipeline.source.execute(change)
                bench.work(5)
    for pipeline in pipelines:
        pipeline.apply()
        assert pipeline.differences() == []
        here = structure(target, ["public"], f"{pipeline.source.name}_")
        there = structure(pipeline.source, ["public"])
        kinds = ("column", "constraint", "enum", "type")
        assert {row for row in here ^ there if row[0] in kinds} == set()
    assert target.value("select count(*) from replication.ddl_pending") == 0
    assert target.value("select count(*) from replication.resync_due") == 0
