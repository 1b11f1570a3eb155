"""Names of tables that clash, or are not those of copies that are there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.run import copy_source
from pgrepl.ddl_capture import decide
from pgrepl.doctor.examine import examine
from pgrepl.doctor.finding import Finding, Status
from pgrepl.drop.run import drop_source
from pgrepl.errors import ConfigError, SchemaVersionError, TargetError
from pgrepl.postgres.connect import connect
from pgrepl.status.target_facts import read_target
from tests.integration.replayer.test_renamed_tables import (
    COPIED,
    DDL,
    RULES,
    TABLES,
    assert_followed,
    tables,
)
from tests.support.running.copying import Recorder
from tests.support.running.ruled import RuledPipeline, rule


def find(pipeline: RuledPipeline, folder: Path, check: str) -> Finding:
    (folder / "pgrepl.toml").write_text("")
    config = replace(pipeline.config, path=folder / "pgrepl.toml")
    (found,) = [
        finding
        for examination in examine(config, list(config.sources.values()), {}, spark=False)
        for finding in examination.findings
        if finding.check == check
    ]
    return found


def test_copy_keeps_its_name_until_doctor_moves_it(source, target, tmp_path):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=[RULES[2]])
    pipeline.begin()
    pipeline.follow()
    was = tables(pipeline)
    pipeline.rules = [rule("app.kna1", table="customers")]
    source.execute("alter table app.kna1 add more int", "update app.kna1 set more = 1")
    pipeline.follow()
    assert tables(pipeline) == was
    finding = find(pipeline, tmp_path, "table-names")
    assert finding.status is Status.WARNING
    assert '"customers"' in finding.message
    assert finding.remedy is not None
    target.execute(*finding.remedy.sql)
    assert find(pipeline, tmp_path, "table-names").status is Status.OK
    source.execute("update app.kna1 set more = 2", "alter table app.kna1 drop more")
    pipeline.follow()
    assert [name for name in tables(pipeline) if name not in was] == ["customers", "parts_1"]
    assert_followed(pipeline)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("create table app.customers (id int primary key)", "app.customers"),
        ("create index customers on app.orders (id)", "app.customers"),
        ("create type app.customers as enum ('a')", "app.customers"),
        ("create table app.rows (id int primary key, of app.kna1[])", "row type"),
    ],
)
def test_name_that_something_else_has_is_refused(source, target, tmp_path, more, told):
    source.execute(TABLES, more)
    pipeline = RuledPipeline(source, target, rules=RULES)
    config = pipeline.config
    with pytest.raises(ConfigError, match=told):
        copy_source(config, config.sources[source.name], CopyOptions(), Recorder())
    finding = find(pipeline, tmp_path, "rules")
    assert (finding.status, told in finding.message) == (Status.FAILURE, True)


def test_ddl_that_makes_names_clash_waits_until_they_do_not(source, target):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    source.execute(
        "create table app.customers (id int primary key)",
        "insert into app.customers values (7)",
        "insert into app.base values (200)",
    )
    pipeline.receive()
    pipeline.replay_ddl()
    ((error,),) = target.rows("select error from replication.ddl_pending")
    assert "app.kna1 cannot be called" in error
    assert tables(pipeline) == COPIED
    # Another rule; the copy that is there keeps its name, so it is the other one that moves.
    pipeline.rules = [*RULES, rule("app.customers", table="clients")]
    with connect(pipeline.config.target.endpoint, "test") as connection:
        decide(connection, source.name, "retry")
    pipeline.replay_ddl()
    pipeline.follow()
    assert tables(pipeline) == sorted([*COPIED, "clients"])
    assert_followed(pipeline)


def test_what_has_the_name_of_a_table_is_in_the_way_of_ddl_alone(source, target, tmp_path):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    place = f"{pipeline.schema('app')}.kna1"
    target.execute(f"create table {place} as select 1 as mine")
    finding = find(pipeline, tmp_path, "table-names")
    assert (finding.status, place in finding.message) == (Status.FAILURE, True)
    source.execute("insert into app.kna1 (id) values (500)", "alter table app.base add more int")
    pipeline.follow()
    assert not pipeline.verify().has_differences
    source.execute("alter table app.kna1 add more int", "insert into app.kna1 (id) values (501)")
    pipeline.receive()
    pipeline.replay_ddl()
    assert [table for table, _ in pipeline.parked()] == ["kna1"]
    assert target.value(f"select mine from {place}") == 1
    config = pipeline.config
    with pytest.raises(TargetError, match="not replicated"):
        drop_source(config, config.sources[source.name], with_data=True)
    target.execute(f"drop table {place}")
    with connect(config.target.endpoint, "test") as connection:
        decide(connection, source.name, "retry")
    pipeline.replay_ddl()
    pipeline.follow()
    assert_followed(pipeline)
    drop_source(config, config.sources[source.name], with_data=True)
    assert target.value(f"select to_regnamespace('{pipeline.schema('app')}') is null")


@pytest.mark.parametrize("plugin", ["wal2json", pytest.param("pgoutput", marks=pytest.mark.soak)])
def test_copies_get_the_names_of_one_another(source, target, tmp_path, plugin):
    names = ["alpha", "beta", "gamma"]
    source.execute(
        "create schema app",
        *(f"create table app.{name} (id int primary key, what text)" for name in names),
        *(
            f"insert into app.{name} select g, '{name}' from generate_series(1, 9) g"
            for name in names
        ),
        "alter table app.beta add foreign key (id) references app.alpha",
    )
    pipeline = RuledPipeline(source, target, plugin=plugin, options={"consistency": "batch"})
    pipeline.begin()
    pipeline.follow()
    pipeline.rules = [
        rule(f"app.{name}", table=wanted)
        for name, wanted in zip(names, [*names[1:], names[0]], strict=True)
    ]
    finding = find(pipeline, tmp_path, "table-names")
    assert finding.remedy is not None
    target.execute(*finding.remedy.sql)
    schema = pipeline.schema("app")
    for name in names:
        # Each statement is of one table alone, whose name another copy has.
        source.execute(
            f"alter table app.{name} add column of_{name} int default 1",
            f"insert into app.{name} (id, what) values (20, '{name}')",
            f"comment on table app.{name} is 'it is {name}'",
            f"create index on app.{name} (what)",
            f"update app.{name} set of_{name} = id where id > 4",
        )
        pipeline.follow()
        assert_followed(pipeline)
        finding = find(pipeline, tmp_path, "table-names")
        assert finding.status is Status.OK, finding
    assert [
        target.value(f"select string_agg(distinct what, ' ') from {schema}.{name}")
        for name in names
    ] == ["gamma", "alpha", "beta"]
    target.execute(f"update {schema}.gamma set what = 'wrong'")
    source.execute("truncate app.alpha, app.beta; insert into app.alpha values (1, 'alpha')")
    pipeline.copy_again("app.beta", "whole")
    pipeline.follow()
    pipeline.copy_again_in_chunks("app.gamma")
    source.execute(
        "begin; alter table app.gamma rename to delta; alter table app.alpha rename to gamma;"
        " insert into app.gamma values (2, 'alpha'); alter table app.delta rename to alpha; commit"
    )
    pipeline.follow()
    assert tables(pipeline) == names
    assert_followed(pipeline)
    pipeline.rules = []
    finding = find(pipeline, tmp_path, "table-names")
    assert finding.remedy is not None
    target.execute(*finding.remedy.sql)
    assert target.value("select count(*) from replication.target_table") == 0
    source.execute("insert into app.alpha (id) values (77)", "alter table app.beta add more int")
    pipeline.follow()
    assert_followed(pipeline)


def test_target_of_the_version_before_is_read_and_brought_up_to_date(source, target, tmp_path):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=[])
    pipeline.begin()
    pipeline.follow()
    was = tables(pipeline)
    source.execute("insert into app.kna1 (id) values (700)")
    pipeline.receive()
    target.execute(
        "drop table replication.target_table",
        "delete from replication.schema_version where name = 'target_tables'",
    )
    pipeline.rules = RULES
    assert find(pipeline, tmp_path, "table-names").status is Status.OK
    with pytest.raises(SchemaVersionError, match="target_tables"):
        read_target(pipeline.config.target.endpoint, [source.name])
    pipeline.follow()
    assert tables(pipeline) == was
    assert find(pipeline, tmp_path, "table-names").status is Status.WARNING
    for statement in DDL:
        source.execute(statement)
    pipeline.follow()
    assert "now" in tables(pipeline)
    assert_followed(pipeline)
