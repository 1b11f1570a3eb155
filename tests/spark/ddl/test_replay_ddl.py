"""Schema changes go the whole way: captured, received, replayed in their place among the rows."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, install
from pgrepl.errors import DdlStopped
from pgrepl.store.progress.shard_progress import Fenced
from tests.support.running.backlog import die_at, plan, run_serial
from tests.support.running.copying import structure
from tests.support.running.pipeline import IN_PIECES, Pipeline
from tests.support.workloads.workload import make_tables

pytestmark = pytest.mark.usefixtures("one_spark_session")


def make_pipeline(source, target):
    pipeline = Pipeline(source, target)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    return pipeline


def assert_equal(pipeline):
    assert pipeline.differences("app") == []
    prefix = f"{pipeline.source.name}_"
    here = structure(pipeline.target, ["app"], prefix)
    there = structure(pipeline.source, ["app"])
    assert {row for row in here ^ there if row[0] == "column"} == set()


@pytest.mark.parametrize("place", ["before_serial_commit", "after_serial_commit"])
def test_ddl_is_applied_once_whenever_the_driver_dies(source, target, place):
    make_tables(source)
    pipeline = make_pipeline(source, target)
    pipeline.copy()
    source.execute(
        "begin; update app.accounts set balance = 0 where id < 10;"
        " alter table app.accounts add column club text default 'none';"
        " update app.accounts set club = 'gold' where id < 20; commit",
        "alter table app.accounts add column rank integer default 7",
        "begin; truncate app.history; update app.accounts set rank = 8 where id < 5; commit",
    )
    pipeline.receive()
    die_at(f"replayer.{place}", pipeline.replay)
    # They follow one another: all of them went together, or none.
    left = {"before_serial_commit": 3, "after_serial_commit": 0}
    assert target.value("select count(distinct seq) from replication.raw_messages") == left[place]
    result = pipeline.replay()
    assert result.error is None
    assert_equal(pipeline)
    assert target.value("select count(*) from replication.ddl_history") == 2


def test_table_made_of_a_view_is_there_before_its_rows(source, target):
    make_tables(source)
    pipeline = make_pipeline(source, target)
    pipeline.copy()
    source.execute(
        "create view app.rich as select id, balance from app.accounts where balance > 1000",
        "begin; create table app.once as select * from app.rich; alter table app.once"
        " add primary key (id); select * into app.twice from app.rich limit 3; commit",
    )
    # What the table is like comes after its rows, in another part of the transaction.
    pipeline.receive(IN_PIECES)
    assert pipeline.replay().error is None
    assert_equal(pipeline)
    assert target.value("select count(*) from replication.resync_due") == 0


def test_transactions_that_cannot_be_applied_together_are_applied_one_by_one(source, target):
    make_tables(source)
    source.execute("create type app.mood as enum ('good')", "create table app.day (mood app.mood)")
    pipeline = make_pipeline(source, target)
    pipeline.copy()
    source.execute(
        "alter table app.accounts add column club text",
        # A value cannot be used in the transaction that adds it.
        "alter type app.mood add value 'bad'",
        "begin; truncate app.day; insert into app.day values ('bad'); commit",
        "alter table app.accounts add column rank integer",
    )
    pipeline.receive()
    result = pipeline.replay()
    assert result.error is None
    assert result.batch_count == 4
    assert_equal(pipeline)


def test_ddl_that_stops_among_others_lets_those_before_it_pass(source, target):
    make_tables(source)
    pipeline = make_pipeline(source, target)
    pipeline.ddl_on_error = "stop"
    pipeline.copy()
    target.execute(
        f"create view public.own as select balance from {pipeline.schema('app')}.accounts"
    )
    source.execute(
        "alter table app.history add column rank integer",
        "alter table app.accounts alter balance type numeric(30, 3)",
        "alter table app.history add column late integer",
    )
    pipeline.receive()
    result = pipeline.replay()
    assert isinstance(result.error, DdlStopped)
    waiting = target.rows("select tag from replication.ddl_pending")
    done = target.rows("select remapped from replication.ddl_history")
    assert len(waiting) == len(done) == 1
    assert "rank" in done[0][0]
    assert target.value("select count(distinct seq) from replication.raw_messages") == 2


def test_transactions_together_that_come_too_late_change_nothing(source, target):
    make_tables(source)
    pipeline = make_pipeline(source, target)
    pipeline.copy()
    source.execute(
        "alter table app.accounts add column club text",
        "truncate app.history",
        "truncate app.history",
    )
    pipeline.receive()
    work, _ = plan(pipeline)
    assert (work.batch.kind, work.batch.from_seq, work.batch.to_seq) == ("serial", 0, 3)
    assert pipeline.replay().error is None
    with pytest.raises(Fenced):
        run_serial(pipeline, work, Applier(pipeline.config))
    assert_equal(pipeline)
