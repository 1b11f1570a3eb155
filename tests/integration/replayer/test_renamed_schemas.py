"""Schemas that rules give another name on the target, the whole way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.run import copy_source
from pgrepl.doctor.examine import examine
from pgrepl.doctor.finding import Status
from pgrepl.errors import PgreplError
from tests.support.running.copying import Recorder
from tests.support.running.ruled import RuledPipeline, rule

TABLES = """
create schema app;
create schema sales;
create type sales.kind as enum ('a', 'b');
create table sales.orders (id int primary key, kind sales.kind default 'a', n serial);
create table app.items (id int primary key, "order" int references sales.orders);
create view app.both as select o.id, o.kind from sales.orders o join app.items i on i.id = o.id;
insert into sales.orders (id) select generate_series(1, 20);
insert into app.items select g, g from generate_series(1, 20) g;
"""
CHANGES = (
    "insert into sales.orders values (100, 'b')",
    "update sales.orders set kind = 'b' where id < 5",
    "delete from app.items where id = 3",
    "alter table sales.orders add column more sales.kind default 'b'",
    (
        "create table sales.parts (id int, place int, primary key (id, place))"
        " partition by list (place)"
    ),
    "create table sales.parts_0 partition of sales.parts for values in (0)",
    "insert into sales.parts values (1, 0)",
    "alter table app.items add column part int references sales.orders",
    "create schema later create table made (id int primary key)",
    "insert into later.made values (1)",
)
RULES = [rule("sales.*", schema="verkauf"), rule("later.*", schema="{source}_{schema}_2")]


def in_schema(pipeline: RuledPipeline, schema: str) -> list[str]:
    return [
        str(name)
        for (name,) in pipeline.target.rows(
            "select relname::text from pg_class where relkind in ('r', 'p')"
            f" and relnamespace = to_regnamespace('{schema}') order by 1"
        )
    ]


def test_renamed_schema_is_followed_the_whole_way(source, target):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    assert in_schema(pipeline, "verkauf") == ["orders"]
    assert in_schema(pipeline, pipeline.schema("app")) == ["items"]
    assert in_schema(pipeline, pipeline.schema("sales")) == []
    source.execute(*CHANGES)
    pipeline.follow()
    pipeline.follow()
    assert pipeline.parked() == []
    assert in_schema(pipeline, "verkauf") == ["orders", "parts", "parts_0"]
    assert in_schema(pipeline, f"{source.name}_later_2") == ["made"]
    pipeline.copy_again_in_chunks("sales.orders")
    report = pipeline.verify()
    assert report.error is None
    assert not report.has_differences, report
    assert target.value("select count(*) from verkauf.orders where kind = 'b'") == 5


def test_schema_that_gets_another_name_later_stays_until_doctor_moves_it(source, target, tmp_path):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=[])
    pipeline.begin()
    pipeline.follow()
    pipeline.rules = RULES[:1]
    source.execute(*CHANGES[:4])
    pipeline.follow()
    assert in_schema(pipeline, "verkauf") == []
    assert in_schema(pipeline, pipeline.schema("sales")) == ["orders"]
    (tmp_path / "pgrepl.toml").write_text("")
    config = replace(pipeline.config, path=tmp_path / "pgrepl.toml")
    (finding,) = [
        finding
        for examination in examine(config, list(config.sources.values()), {}, spark=False)
        for finding in examination.findings
        if finding.check == "existing-schemas"
    ]
    assert finding.status is Status.WARNING
    assert '"verkauf"' in finding.message
    assert finding.remedy is not None
    target.execute(*finding.remedy.sql)
    source.execute("update sales.orders set kind = 'a'")
    pipeline.follow()
    assert in_schema(pipeline, "verkauf") == ["orders"]
    assert not pipeline.verify().has_differences


def test_two_schemas_of_one_name_are_refused(source, target):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=[rule("sales.*", "app.*", schema="one")])
    config = pipeline.config
    with pytest.raises(PgreplError, match='would both become "one"'):
        copy_source(config, config.sources[source.name], CopyOptions(), Recorder())
