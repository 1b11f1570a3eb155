"""Rows that are not as expected because the source did not send their changes park nothing."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, install
from pgrepl.resync import Resyncer
from tests.support.running.pipeline import ALONE, Pipeline

pytestmark = pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])


@pytest.fixture
def pipeline(source, target, plugin) -> Pipeline:
    source.execute(
        "create table t (id int unique, a int)",
        "insert into t select g, g from generate_series(1, 3) g",
        "create table other (id int primary key)",
    )
    made = Pipeline(source, target, plugin=plugin)
    made.ddl = Applier(made.config)
    made.resync = Resyncer(made.config, interval_s=0.0, backoff_s=0.0)
    install(made.config.sources[source.name])
    made.copy()
    return made


def states(pipeline):
    return pipeline.target.rows(
        "select table_name::text, state, resync_reason is not null from replication.source_table"
        " order by 1"
    )


def test_rows_that_are_only_appended_follow_and_an_update_is_noticed(pipeline, plugin):
    source = pipeline.source
    source.execute(
        "insert into t values (4, 4)",
        "truncate t",
        "insert into t select g, g from generate_series(5, 8) g",
    )
    pipeline.apply(ALONE)
    assert pipeline.differences() == []
    assert states(pipeline) == [("other", "ready", False), ("t", "ready", False)]
    source.execute("update t set a = 0 where id = 5")
    pipeline.apply(ALONE)
    if plugin == "pgoutput":
        pipeline.receive()  # it counts what it was not sent
    assert ("t", "ready", True) in states(pipeline)


def test_insert_after_a_delete_that_was_not_sent_holds_up_no_ddl(pipeline):
    source = pipeline.source
    source.execute(
        "delete from t where id = 1",
        "insert into t values (1, 10)",
        "alter table t add b int default 5",
        "alter table other add c int references t (id)",
        "insert into other values (1, 1)",
    )
    pipeline.apply(ALONE)
    # The next copy would lose changes again.
    assert states(pipeline) == [("other", "ready", False), ("t", "pending", True)]
    assert pipeline.differences() == ["t"]


def test_table_that_has_an_identity_by_now_is_copied_again(pipeline):
    source = pipeline.source
    source.execute("update t set id = 9, a = 90 where id = 1")
    pipeline.receive()
    source.execute(
        "alter table t replica identity full",
        "update t set a = 91 where id = 9",
        "alter table t add b int default 5",
    )
    pipeline.apply(ALONE)
    assert pipeline.differences() == []
    assert states(pipeline) == [("other", "ready", False), ("t", "ready", False)]


def test_rows_of_a_new_table_that_will_lose_changes_are_applied(pipeline, plugin):
    source = pipeline.source
    source.execute(
        "create table made (id int, a int)",
        "insert into made values (1, 1), (2, 2)",
        "update made set a = 3 where id = 1",
    )
    pipeline.apply(ALONE)
    rows = pipeline.target.rows(f"select id, a from {pipeline.schema()}.made order by 1")
    assert rows == [(1, 1), (2, 2)]
    if plugin == "pgoutput":
        pipeline.receive()  # it counts what it was not sent
    assert ("made", "ready", True) in states(pipeline)
