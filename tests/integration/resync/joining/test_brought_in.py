"""Tables that DDL brings into replication: nobody sees them before all of their rows are there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from pgrepl.config.model import Config
from pgrepl.config.naming import TableSelection
from pgrepl.ddl_capture import Applier, install
from pgrepl.resync import Resyncer
from tests.support.database import Database
from tests.support.meanwhile import meanwhile
from tests.support.running.copying import copy_source_of
from tests.support.running.pipeline import QUICK, Pipeline

#: Without Spark: the driver applies all.
ALONE = replace(QUICK, driver_changes=10**9)
ROWS = 40
TABLES = f"""
create schema app;
create schema hidden;
create table app.items (id int primary key, n int);
create table app.p (id int primary key, n int) partition by range (id);
create table app.p_0 partition of app.p for values from (1000) to (2000);
insert into app.items select g, g from generate_series(1, {ROWS}) g;
insert into app.p select 1000 + g, g from generate_series(1, {ROWS}) g;
create table app.tmp_new (id int primary key, n int);
create table hidden.new (id int primary key, n int);
create table app.tmp_part (id int primary key, n int);
create table hidden.root (id int primary key, n int) partition by range (id);
create table hidden.root_0 partition of hidden.root for values from (0) to (1000);
create table hidden.bare (id int, n int) partition by list (n);
insert into app.tmp_new select g, g from generate_series(1, {ROWS}) g;
insert into hidden.new select g, g from generate_series(1, {ROWS}) g;
insert into app.tmp_part select g, g from generate_series(1, {ROWS}) g;
insert into hidden.root select g, g from generate_series(1, {ROWS}) g;
"""
#: What brings a table in, and which one.
CASES = {
    "rename": ("alter table app.tmp_new rename to new", "new"),
    "set schema": ("alter table hidden.new set schema app", "new"),
    "attach": (
        "alter table app.p attach partition app.tmp_part for values from (0) to (1000)",
        "tmp_part",
    ),
    "rename schema": ("alter schema app rename to gone; alter schema hidden rename to app", "new"),
    "partitioned": ("alter table hidden.root set schema app", "root"),
}


@dataclass
class Chosen(Pipeline):
    """A pipeline that leaves out some tables."""

    @property
    def config(self) -> Config:
        config = super().config
        selection = TableSelection.of(["app.*"], ["app.tmp_*"])
        return replace(
            config,
            sources={
                name: replace(source, selection=selection)
                for name, source in config.sources.items()
            },
        )


@pytest.fixture(params=["wal2json", pytest.param("pgoutput", marks=pytest.mark.soak)])
def pipeline(request, source, target) -> Chosen:
    source.execute(TABLES)
    pipeline = Chosen(source, target, plugin=request.param)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    copy_source_of(pipeline.config, source.name)
    return pipeline


@contextmanager
def reader(target: Database, place: str) -> Iterator[set[int]]:
    """Count the rows of a table all the time, while it is there."""
    seen: set[int] = set()

    def read(stop: threading.Event) -> None:
        while not stop.wait(0.005):
            seen.update(_count(target, place))

    with meanwhile(read):
        yield seen


def _count(target: Database, place: str) -> list[int]:
    if target.value(f"select to_regclass('{place}') is null"):
        return []
    return [int(target.value(f"select count(*) from {place}"))]


@pytest.mark.parametrize("case", CASES)
def test_table_is_seen_when_it_is_whole(pipeline, case):
    statement, table = CASES[case]
    source, target = pipeline.source, pipeline.target
    place = f"{pipeline.schema('app')}.{table}"
    with reader(target, place) as seen:
        source.execute(*statement.split("; "))
        source.execute(f"insert into app.{table} select g, g from generate_series(101, 105) g")
        pipeline.receive()
        # Nobody copies it yet; it stays like this for as long as the copy takes.
        assert pipeline.replay(ALONE).error is None
        assert _count(target, place) == []
        altered = "p" if case == "attach" else table
        source.execute(
            f"alter table app.{altered} add column more int default 7",
            f"create index on app.{table} (n)",
            f"update app.{table} set n = -n where id < 4",
        )
        pipeline.receive()
        assert pipeline.replay(ALONE).error is None
        assert _count(target, place) == []
        pipeline.resync = Resyncer(pipeline.config, interval_s=0.0, backoff_s=0.0)
        pipeline.apply(ALONE)
        source.execute(f"insert into app.{table} values (200, 1)")
        pipeline.apply(ALONE)
    assert min(seen) >= ROWS
    rows = source.rows(f"select id, n, more from app.{table} order by 1")
    assert target.rows(f"select id, n, more from {place} order by 1") == rows
    assert target.rows("select from replication.resync_due") == []
    assert target.rows("select from replication.parked_table") == []
    waiting = target.rows("select tag from replication.ddl_pending")
    assert waiting == []


def test_copy_that_was_dropped_here_is_made_again_by_a_copy(pipeline):
    source, target = pipeline.source, pipeline.target
    place = f"{pipeline.schema('app')}.items"
    target.execute(f"drop table {place}")
    source.execute("alter table app.items add column more int default 7")
    pipeline.receive()
    pipeline.replay(ALONE)
    assert _count(target, place) == []
    pipeline.resync = Resyncer(pipeline.config, interval_s=0.0, backoff_s=0.0)
    pipeline.apply(ALONE)
    assert _count(target, place) == [ROWS]


def test_partitioned_table_without_partitions_is_made(pipeline):
    source, target = pipeline.source, pipeline.target
    source.execute("alter table hidden.bare set schema app")
    pipeline.resync = Resyncer(pipeline.config, interval_s=0.0, backoff_s=0.0)
    pipeline.apply(ALONE)
    source.execute(
        "create table app.bare_1 partition of app.bare for values in (1)",
        "insert into app.bare values (1, 1)",
    )
    pipeline.apply(ALONE)
    assert target.rows(f"select * from {pipeline.schema('app')}.bare") == [(1, 1)]
    assert target.rows("select from replication.resync_due") == []


def test_table_that_leaves_before_it_is_copied_is_forgotten(pipeline):
    source, target = pipeline.source, pipeline.target
    source.execute("alter table hidden.new set schema app")
    pipeline.receive()
    pipeline.replay(ALONE)
    source.execute("alter table app.new rename to newer", "insert into app.newer values (77, 7)")
    pipeline.receive()
    pipeline.replay(ALONE)
    assert target.rows("select table_name::text from replication.resync_due") == [("newer",)]
    source.execute("alter table app.newer set schema hidden", "drop table app.tmp_new")
    pipeline.receive()
    pipeline.replay(ALONE)
    assert target.rows("select from replication.resync_due") == []
    known = "select from replication.source_table where table_name in ('new', 'newer')"
    assert target.rows(known) == []
