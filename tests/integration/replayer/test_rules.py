"""Masked columns the whole way: copy, stream, DDL, resync, verify and export."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest

from pgrepl.export.plan import ExportSettings
from pgrepl.export.run import Exporter
from pgrepl.export.sinks.destinations import FilesDestination, make_plan
from tests.support.running.backlog import die_at
from tests.support.running.ruled import SALT, RuledPipeline, leaks, rule
from tests.support.workloads.random_source import TABLES as RANDOM_TABLES
from tests.support.workloads.random_source import change_at_random

CANARY = "CANARY-7f3a"
TABLES = f"""
create schema app;
create table app.people (id int primary key, name text not null, mail varchar(80) unique,
                         age int, note text, born date, open text);
alter table app.people alter note set storage external;
create table app.visits (id int, place int, who text, primary key (id, place))
    partition by list (place);
create table app.visits_0 partition of app.visits for values in (0);
create table app.visits_1 partition of app.visits for values in (1);
create table app.others (id int primary key, note text);
insert into app.people select g, '{CANARY} ' || g, '{CANARY}-' || g, g, repeat('{CANARY} ', 500),
    date '2000-01-01' + g, 'open' from generate_series(1, 60) g;
insert into app.visits select g, g % 2, '{CANARY}-' || g from generate_series(1, 20) g;
insert into app.others select g, 'later {CANARY[:6]}' from generate_series(1, 5) g;
"""
RULES = [
    rule("app.people", hash=("mail", "phone"), null=("note",)),
    rule("app.people", constant={"name": "somebody", "age": "0", "born": "1970-01-01"}),
    rule("app.visits*", hash=("who",)),
]
CHANGES = (
    f"insert into app.people values (100, '{CANARY}', '{CANARY}-x', null, '{CANARY}', null, 'o')",
    f"update app.people set mail = '{CANARY}-y' || id, open = 'u' where id < 20",
    "update app.people set id = id + 1000 where id between 20 and 25",
    f"update app.people set note = '{CANARY}', age = 7 where id > 50",
    "delete from app.people where id between 40 and 45",
    "update app.visits set place = 1 - place where id < 10",
    f"insert into app.visits select g, g % 2, '{CANARY}' from generate_series(100, 120) g",
)

pytestmark = pytest.mark.usefixtures("_salt")


@pytest.fixture
def _salt(monkeypatch):
    monkeypatch.setenv("PGREPL_SALT", SALT)


def assert_masked(pipeline: RuledPipeline, schema: str = "app") -> None:
    assert pipeline.masked_differences(schema) == []
    report = pipeline.verify()
    assert not report.has_differences, report
    assert report.error is None
    assert leaks(pipeline.target, CANARY, SALT) == []


def export(pipeline: RuledPipeline, folder: Path) -> str:
    """Hand on what is spooled, and return all that was written."""
    config, name = pipeline.config, pipeline.source.name
    plan = make_plan(
        name,
        FilesDestination(folder, timedelta(0), "json"),
        tables=(),
        envelope="debezium",
        consumer=None,
        has_snapshot=True,
        has_schemas=False,
        keep=timedelta(days=7),
    )
    Exporter(config, config.sources[name], plan, ExportSettings()).run(once=True)
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@pytest.mark.parametrize("plugin", ["wal2json", pytest.param("pgoutput", marks=pytest.mark.soak)])
def test_no_value_of_a_masked_column_reaches_the_target(source, target, tmp_path, caplog, plugin):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, plugin=plugin, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    assert_masked(pipeline)
    exported = export(pipeline, tmp_path)
    source.execute(*CHANGES)
    pipeline.receive()
    assert leaks(target, CANARY, SALT) == []
    exported += export(pipeline, tmp_path)
    assert "somebody" in exported
    assert CANARY not in exported
    pipeline.follow()
    assert_masked(pipeline)
    # A masked column that is new, one that is rewritten, and others.
    source.execute(
        "alter table app.people add column phone text default 'none'",
        "alter table app.people alter note type varchar using left(note, 9)",
        "alter table app.people rename open to opened",
        f"update app.people set phone = '{CANARY}' where id < 5",
        "alter table app.visits add column extra int default 3",
    )
    pipeline.follow()
    assert_masked(pipeline)
    assert target.value("select count(*) from replication.resync_due") == 0
    # Both ways of a resync.
    target.execute(
        "insert into replication.resync_due (source_id, schema_name, table_name, reason)"
        " select source_id, schema_name, table_name, 'test' from replication.source_table"
        " where table_name = 'visits_0'"
    )
    source.execute(f"update app.visits set who = '{CANARY}!' where place = 0")
    pipeline.follow()
    pipeline.copy_again_in_chunks("app.people")
    pipeline.follow()
    assert_masked(pipeline)
    # Another rule takes effect for all rows.
    pipeline.rules = [*RULES, rule("app.others", constant={"note": "-"})]
    source.execute("insert into app.others values (9, 'nine')")
    pipeline.follow()
    assert_masked(pipeline)
    assert leaks(target, f"later {CANARY[:6]}") == []
    log = "".join(str(vars(record)) for record in caplog.records)
    for text in (log, target.cluster.log.read_text(), source.cluster.log.read_text()):
        assert SALT not in text
    assert CANARY not in log
    assert CANARY not in target.cluster.log.read_text()


def test_table_that_joins_in_chunks_joins_masked(source, target):
    source.execute(
        "create schema app; create table app.first (id int primary key)",
        "create table app.people (id int primary key, mail text, note text)",
        f"insert into app.people select g, '{CANARY}-' || g, '{CANARY}'"
        " from generate_series(1, 90) g",
    )
    rules = [rule("app.people", hash=("mail",), null=("note",))]
    pipeline = RuledPipeline(source, target, rules=rules)
    pipeline.only = "app.first"
    pipeline.begin()
    pipeline.follow()
    pipeline.only = None
    source.execute(f"update app.people set mail = '{CANARY}' where id < 9")
    pipeline.copy_again_in_chunks("app.people")
    source.execute(f"update app.people set mail = '{CANARY}!', note = '{CANARY}' where id > 80")
    pipeline.follow()
    assert_masked(pipeline)
    assert target.value(f"select count(*) from {pipeline.schema('app')}.people") == 90


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("alter table app.people add check (age >= 0)", "may violate"),
        ("alter table app.people alter note set not null", "note"),
        ("create unique index on app.people (born)", "unique"),
        ("alter table app.people alter mail type varchar(40)", "a hash needs"),
    ],
)
def test_ddl_that_a_mask_cannot_hold_with_waits_with_its_table(source, target, statement, why):
    source.execute(
        TABLES, "update app.people set note = 'n', age = id + 10, born = date '1990-01-01' + id"
    )
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    source.execute("update app.people set mail = 'm' || id")
    source.execute(statement)
    pipeline.receive()
    result = pipeline.replay_ddl()
    ((table, reason),) = pipeline.parked()
    assert table == "people"
    pending = target.value("select error from replication.ddl_pending")
    assert why in reason + (pending or ""), (reason, pending)
    assert result is not None
    assert leaks(target, CANARY) == []


@pytest.mark.parametrize(
    ("seed", "plugin"),
    [
        pytest.param(0, "wal2json", marks=pytest.mark.soak),
        (1, "pgoutput"),
        pytest.param(2, "wal2json", marks=pytest.mark.soak),
        pytest.param(3, "pgoutput", marks=pytest.mark.soak),
    ],
)
def test_target_is_the_masked_source_after_random_transactions(source, target, seed, plugin):
    dice = random.Random(seed)
    source.execute(RANDOM_TABLES)
    rules = [
        rule("public.plain", hash=("note",), constant={"n": "7.25"}),
        rule("public.wide", null=("body",), omit=("n", "g", "h")),
        rule("public.bag", hash=("y",)),
        rule("public.whole", hash=("body",), constant={"x": "1"}),
        rule("public.by_index", omit=("n",)),
        rule("public.parts*", constant={"n": "0"}),
        rule("public.plain", table="whole"),
        rule("public.whole", table="bag"),
        rule("public.bag", table="plain"),
        rule("public.parts_1", table="parts"),
        rule("public.parts", table="Parts"),
    ]
    pipeline = RuledPipeline(source, target, plugin=plugin, rules=rules)
    pipeline.begin()
    for number in range(4):
        change_at_random(source, dice, 25)
        if number == 2:
            # Some of it waits, and some comes meanwhile.
            pipeline.receive()
            change_at_random(source, dice, 5)
            pipeline.copy_again("public.*", "whole")
            for table in ("public.plain", "public.wide", "public.parts_1"):
                pipeline.copy_again_in_chunks(table, lambda: change_at_random(source, dice, 2))
        if number == 1:
            source.execute(
                "alter table bag add column z int default 4",
                "alter table whole add column more text",
                "alter table wide add column h int default 4, add column i int default 5",
            )
        pipeline.follow()
        assert pipeline.masked_differences("public") == [], seed
        assert not pipeline.verify().has_differences, seed


def test_rule_that_comes_before_a_copy_that_was_killed_goes_on_holds_for_its_rows(source, target):
    source.execute(
        "create schema app; create table app.people (id int primary key, mail text)",
        f"insert into app.people select g, '{CANARY}-' || g from generate_series(1, 9) g",
    )
    pipeline = RuledPipeline(source, target)
    pipeline.begin()
    pipeline.follow()
    die_at("resync.swapped", lambda: pipeline.copy_again("app.people", "whole"))
    source.execute(f"update app.people set mail = '{CANARY}' where id = 1")
    pipeline.rules = [rule("app.people", hash=("mail",))]
    pipeline.follow()
    pipeline.follow()
    assert_masked(pipeline)
    assert target.value("select count(*) from replication.resync_due") == 0
