"""A table that lost changes is marked, also where replay has yet to make it under an old name."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, install
from tests.support.running.pipeline import Pipeline

pytestmark = pytest.mark.usefixtures("one_spark_session")

#: Each ends with a table t without identity that lost a DELETE while replay knows another t.
SWAPS = {
    "dropped": (
        "drop table app.t",
        "create table app.t as select generate_series(1, 3) as id",
        "delete from app.t where id = 1",
    ),
    "in_one_transaction": (
        (
            "begin; drop table app.t; create table app.t as select generate_series(1, 3) as id;"
            " delete from app.t where id = 1; commit"
        ),
    ),
    "renamed_away": (
        "alter table app.t rename to old",
        "create table app.t (id int)",
        "insert into app.t values (1), (2)",
        "delete from app.t where id = 1",
    ),
    "renamed_here": (
        "create table app.other (id int)",
        "insert into app.other values (1), (2)",
        "drop table app.t",
        "alter table app.other rename to t",
        "delete from app.t where id = 1",
    ),
}


@pytest.mark.parametrize("statements", SWAPS.values(), ids=SWAPS)
def test_loss_is_not_forgotten_with_the_table_that_had_the_name(source, target, statements):
    pipeline = Pipeline(source, target)
    source.execute("create schema app; create table app.t (id int primary key)")
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(*statements)
    pipeline.receive()
    result = pipeline.replay()
    assert result.error is None
    marked = target.rows(
        "select table_name::text from replication.source_table where resync_reason is not null"
    )
    assert ("t",) in marked
    assert target.rows("select from replication.ddl_pending") == []


def test_loss_goes_with_the_table_that_it_is_of(source, target):
    pipeline = Pipeline(source, target)
    source.execute("create schema app; create table app.t (id int primary key)")
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(
        "create table app.u (id int)",
        "insert into app.u values (1)",
        "delete from app.u",
        "drop table app.u",
    )
    pipeline.receive()
    assert pipeline.replay().error is None
    assert target.rows("select from replication.source_table where table_name = 'u'") == []
