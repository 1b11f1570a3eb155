"""A table is dropped after DDL that could not be applied and waits with other tables."""

from __future__ import annotations

from dataclasses import replace

from pgrepl.ddl_capture import Applier, install
from tests.support.program import run_pgrepl
from tests.support.running.killing import write_copy_config
from tests.support.running.pipeline import ALONE, Pipeline

TABLES = (
    "create schema app",
    "create table app.a (id int primary key)",
    "create table app.b (id int primary key)",
    "insert into app.b values (1)",
)


def test_drop_waits_for_its_turn_and_the_table_is_not_made_again(source, target, tmp_path):
    source.execute(*TABLES)
    pipeline = Pipeline(source, target)
    pipeline = replace(pipeline, ddl=Applier(pipeline.config))
    pipeline.copy()
    install(pipeline.config.sources[source.name])
    pipeline.apply(ALONE)
    in_the_way = pipeline.schema("shelf")
    target.execute(f"create schema {in_the_way}")
    source.execute(
        "alter schema app rename to shelf",
        "alter schema shelf rename to app",
        "drop table app.b",
        "insert into app.a values (1)",
    )
    pipeline.receive()
    pipeline.replay(ALONE)
    target.execute(f"drop schema {in_the_way}")
    config = write_copy_config(tmp_path, source, target)
    done = run_pgrepl("ddl", "retry", source.name, "--config", config)
    assert done.returncode == 0, done.stderr
    pipeline.replay(ALONE)
    assert pipeline.parked() == []
    assert pipeline.differences("app") == []
    assert target.rows("select table_name::text from replication.source_table") == [("a",)]
