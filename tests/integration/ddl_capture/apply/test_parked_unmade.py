"""A table that could not be made waits with its DDL: nothing else is to make it meanwhile."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, decide, install
from pgrepl.resync import Resyncer
from tests.support.running.backlog import control
from tests.support.running.pipeline import ALONE, Pipeline

LATER = (
    "create index on app.u (b)",
    "insert into app.u values ('x', 1)",
    "alter table app.u add c int default 5",
    "alter table app.u rename to v",
    "alter table app.v rename c to d",
    "insert into app.v values ('y', 2, 3)",
)


@pytest.mark.parametrize("plugin", ["wal2json", pytest.param("pgoutput", marks=pytest.mark.soak)])
def test_ddl_on_a_table_that_could_not_be_made_waits_with_it(source, target, plugin):
    pipeline = Pipeline(source, target, plugin=plugin)
    source.execute("create schema app; create extension citext schema app")
    pipeline.ddl = Applier(pipeline.config)
    pipeline.resync = Resyncer(pipeline.config, interval_s=0.0, backoff_s=0.0)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute("create table app.u (id app.citext primary key, b int)", *LATER)
    pipeline.receive()
    result = pipeline.replay(ALONE)
    assert (result.error, result.due) == (None, [])
    pending = target.rows("select tag, log_id from replication.ddl_pending order by log_id")
    assert pending[0][0] == "CREATE TABLE"
    assert len(pending) == 5
    target.execute("create schema extensions; create extension citext schema extensions")
    with control(pipeline) as connection:
        decide(connection, source.name, "retry", log_id=pending[0][1])
    pipeline.apply(ALONE)
    assert target.rows("select from replication.ddl_pending") == []
    assert pipeline.differences("app") == []
