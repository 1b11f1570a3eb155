"""DDL follows a source that is read through pgoutput, and what it fills and empties too."""

from __future__ import annotations

import pytest

from pgrepl import ddl_capture
from pgrepl.resync import Resyncer
from tests.support.running.pipeline import Pipeline

pytestmark = pytest.mark.usefixtures("one_spark_session")


def test_ddl_and_the_rows_around_it_arrive(source, target):
    source.execute("create table t (id serial primary key, note text)")
    pipeline = Pipeline(source, target, plugin="pgoutput")
    pipeline.ddl = ddl_capture.Applier(pipeline.config)
    ddl_capture.install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(
        "insert into t (note) values ('a'), ('b')",
        "begin; alter table t add more int default 5; insert into t (note, more) values ('c', 6);"
        " alter table t drop note; insert into t (more) values (7); commit",
        "create table made as select g as id, 'n' || g as note from generate_series(1, 20) g",
        "create table keyed (id int primary key, n int)",
        "insert into keyed select g, g from generate_series(1, 9) g",
        "update keyed set n = -n where id < 5; delete from keyed where id = 9",
        "alter table keyed drop constraint keyed_pkey",
        "insert into keyed values (10, 10)",
        "truncate t restart identity",
        "insert into t (more) values (1)",
    )
    pipeline.apply()
    assert pipeline.differences() == []
    assert target.value(f"select last_value from {pipeline.schema()}.t_id_seq") == 1


def test_table_that_was_not_published_for_a_while_is_the_same_in_the_end(source, target):
    source.execute("create table t (id int primary key, note text); insert into t values (1, 'a')")
    pipeline = Pipeline(source, target, plugin="pgoutput")
    pipeline.ddl = ddl_capture.Applier(pipeline.config)
    ddl_capture.install(pipeline.config.sources[source.name])
    pipeline.copy()
    source.execute(
        "alter table t drop constraint t_pkey",
        "update t set note = 'b'",
        "alter table t add primary key (id)",
        "begin; create table made (id int, n int); insert into made values (1, 1), (2, 2);"
        " update made set n = 3 where id = 1; alter table made add primary key (id); commit",
        "update made set n = 4 where id = 2",
    )
    pipeline.resync = Resyncer(pipeline.config, interval_s=0.0, backoff_s=0.0)
    # The receiver looks after each pass, and knows what replay has made by then.
    for _ in range(3):
        pipeline.apply()
    assert pipeline.differences() == []
    assert target.value("select count(*) from replication.resync_due") == 0
