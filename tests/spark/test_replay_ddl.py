"""Schema changes go the whole way: captured, received, replayed in their place among the rows."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, install
from tests.support.backlog import die_at
from tests.support.copying import structure
from tests.support.pipeline import IN_PIECES, Pipeline
from tests.support.workload import make_tables

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
        " update app.accounts set club = 'gold' where id < 20; commit"
    )
    pipeline.receive()
    die_at(f"replayer.{place}", pipeline.replay)
    result = pipeline.replay()
    assert result.error is None
    assert_equal(pipeline)
    assert target.value("select count(*) from replication.ddl_history") == 1


def test_table_made_of_a_view_is_there_before_its_rows(source, target):
    make_tables(source)
    pipeline = make_pipeline(source, target)
    pipeline.copy()
    source.execute(
        "create view app.rich as select id, balance from app.accounts where balance > 1000",
        "begin; create table app.once as select * from app.rich; alter table app.once"
        " add primary key (id); select * into app.twice from app.rich limit 3; commit",
    )
    # What the table is like comes behind its rows, in another part of the transaction.
    pipeline.receive(IN_PIECES)
    assert pipeline.replay().error is None
    assert_equal(pipeline)
    assert target.value("select count(*) from replication.resync_due") == 0
