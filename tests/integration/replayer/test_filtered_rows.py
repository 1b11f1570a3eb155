"""Rows that rules filter, the whole way: copy, stream, DDL, resync, verify and export."""

from __future__ import annotations

import random

import pytest

from pgrepl.errors import ConfigError
from tests.integration.replayer.test_rules import export
from tests.support.running.ruled import RuledPipeline, leaks, rule
from tests.support.workloads.random_source import TABLES as RANDOM_TABLES
from tests.support.workloads.random_source import change_at_random

CANARY = "CANARY-51b7"
#: Rows with an even id are those that reach the target; others have the canary.
TABLES = f"""
create schema app;
create table app.orders (tenant int, id int, note text, big text, primary key (tenant, id));
alter table app.orders alter big set storage external;
create table app.items (id int primary key, tenant int, item int, what text,
                        foreign key (tenant, item) references app.orders);
create table app.full_rows (id int, state text, big text, n int);
alter table app.full_rows replica identity full;
alter table app.full_rows alter big set storage external;
create table app.keyed_full (id int primary key, state text, big text);
alter table app.keyed_full replica identity full;
alter table app.keyed_full alter big set storage external;
create table app.parts (id int, place int, note text, primary key (id, place))
    partition by list (place);
create table app.parts_0 partition of app.parts for values in (0);
create table app.parts_1 partition of app.parts for values in (1);
create view app.seen as select * from app.orders;
insert into app.orders select g % 2, g, case g % 2 when 0 then 'open' else '{CANARY}' end,
    repeat(case g % 2 when 0 then 'o' else '{CANARY}' end, 3000) from generate_series(1, 60) g;
insert into app.items select g, g % 2, g, 'n' from generate_series(50, 60) g;
insert into app.full_rows select g, case when g % 3 = 0 then null when g % 3 = 1 then 'kept'
    else '{CANARY}' end, repeat('x', 3000), g from generate_series(1, 40) g;
insert into app.keyed_full select g, case g % 2 when 0 then 'kept' else '{CANARY}' end,
    repeat('x' || g, 2000) from generate_series(1, 40) g;
insert into app.parts select g, g % 2, case when g <= 10 then 'n' else '{CANARY}' end
    from generate_series(1, 20) g;
"""
RULES = [
    rule("app.orders", "app.deals", where="tenant = 0 -- of ours"),
    rule("app.full_rows", "app.keyed_full", where="state in ('kept', 'held') and 50 % 7 = 1"),
    rule("app.parts*", where="id <= 10"),
]
CHANGES = (
    f"insert into app.orders values (0, 100, 'in', 'b'), (1, 101, '{CANARY}', '{CANARY}')",
    "update app.orders set note = note || '!' where id < 20",
    "update app.orders set tenant = 1, note = 'leaves' where id in (10, 12)",
    "update app.orders set tenant = 0, note = 'comes', big = 'b' || id where id in (11, 13)",
    "update app.orders set id = id + 1000 where id between 30 and 35",
    "delete from app.orders where id between 40 and 45",
    f"update app.full_rows set state = '{CANARY}' where id in (1, 4)",
    "update app.full_rows set state = 'held' where id in (2, 3)",
    "update app.full_rows set n = -n where id < 15",
    "delete from app.full_rows where id between 20 and 25",
    "update app.keyed_full set state = 'held', id = id + 100 where id in (1, 2, 3)",
    f"update app.keyed_full set state = '{CANARY}' where id in (4, 6)",
    "update app.keyed_full set id = -id where id > 30",
    "update app.parts set place = 1 - place where id < 15",
    f"insert into app.parts values (50, 1, '{CANARY}')",
    "update app.parts set id = id + 20 where id < 3",
    "update app.parts set id = id - 10, note = 'in' where id in (11, 12)",
    "update app.items set what = 'm' where id > 55",
)
DDL = (
    "alter table app.orders add column extra int default 3",
    "insert into app.orders values (0, 200, 'in', 'b', 4), (1, 201, 'out', 'b', 4)",
    "drop view app.seen",
    "alter table app.orders alter tenant type bigint",
    "update app.orders set note = 'again' where id > 50",
    "alter table app.orders rename to deals",
    "insert into app.deals values (0, 300, 'in', 'b', 4), (1, 301, 'out', 'b', 4)",
    "create table app.more (id int primary key, tenant int, deal int)",
    "alter table app.more add foreign key (tenant, deal) references app.deals",
    "insert into app.more select id, tenant, id from app.deals",
    "create table app.parts_2 partition of app.parts for values in (2)",
    "insert into app.parts values (9, 2, 'in'), (99, 2, 'out')",
    "truncate app.full_rows",
    "insert into app.full_rows values (1, 'kept', 'b', 1), (2, 'other', 'b', 2)",
)


def assert_filtered(pipeline: RuledPipeline) -> None:
    assert pipeline.parked() == []
    assert pipeline.target.rows("select original, error from replication.ddl_pending") == []
    assert pipeline.masked_differences("app") == []
    report = pipeline.verify()
    assert not report.has_differences, report
    assert report.error is None


def count_keys(pipeline: RuledPipeline) -> int:
    """Return the number of foreign keys to the orders."""
    table = f"{pipeline.schema('app')}.orders"
    return int(
        pipeline.target.value(
            f"select count(*) from pg_constraint where confrelid = '{table}'::regclass"
        )
    )


def marked(pipeline: RuledPipeline) -> list[tuple[str, str]]:
    return pipeline.target.rows(
        "select table_name::text, resync_reason from replication.source_table"
        " where resync_reason is not null order by 1"
    )


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_filtered_row_is_nowhere_on_the_target(source, target, tmp_path, plugin):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, plugin=plugin, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    schema = pipeline.schema("app")
    assert target.value(f"select count(*) from {schema}.orders") == 30
    assert_filtered(pipeline)
    assert leaks(target, CANARY) == []
    exported = export(pipeline, tmp_path)
    source.execute(*CHANGES)
    pipeline.receive()
    assert leaks(target, CANARY) == []
    exported += export(pipeline, tmp_path)
    pipeline.follow()
    assert_filtered(pipeline)
    assert marked(pipeline) == []
    assert leaks(target, CANARY) == []
    assert CANARY not in exported
    assert '"leaves"' not in exported
    assert '"comes"' in exported
    # Rows that items refer to are not there.
    assert count_keys(pipeline) == 0
    source.execute(*DDL)
    pipeline.follow()
    pipeline.follow()
    assert_filtered(pipeline)
    assert marked(pipeline) == []


@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_row_that_comes_in_without_its_toast_marks_its_table(source, target, plugin):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, plugin=plugin, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    source.execute("update app.orders set tenant = 0 where id = 11")
    source.execute("update app.orders set note = 'more' where id = 11")
    pipeline.receive()
    ((table, reason),) = marked(pipeline)
    assert table == "orders"
    assert "without all of its values" in reason
    pipeline.follow()
    pipeline.follow()
    assert marked(pipeline) == []
    assert_filtered(pipeline)


def test_changed_filter_takes_effect_by_a_copy(source, target):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES[1:])
    pipeline.begin()
    pipeline.follow()
    schema = pipeline.schema("app")
    assert count_keys(pipeline) == 1
    pipeline.rules = [*RULES[:2], rule("app.parts*", where="id > 10")]
    source.execute(*CHANGES)
    pipeline.follow()
    assert_filtered(pipeline)
    assert marked(pipeline) == []
    assert count_keys(pipeline) == 0
    assert target.value(f"select min(id) from {schema}.parts") > 10
    # And back again.
    pipeline.rules = []
    source.execute("update app.orders set note = 'all' where id < 30")
    pipeline.follow()
    assert_filtered(pipeline)
    assert count_keys(pipeline) == 1


def test_filtered_table_is_copied_in_chunks_and_joins(source, target):
    source.execute(TABLES, "drop table app.full_rows, app.keyed_full, app.parts")
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.only = "app.items"
    pipeline.begin()
    pipeline.follow()
    pipeline.only = None
    pipeline.copy_again_in_chunks("app.orders")
    assert target.value(f"select count(*) from {pipeline.schema('app')}.orders") == 30
    target.execute(
        f"insert into {pipeline.schema('app')}.orders values (1, 7, 'stray', ''), (0, -7, 's', '')",
        f"delete from {pipeline.schema('app')}.orders where id = 50",
    )
    source.execute(*CHANGES[:6])
    pipeline.copy_again_in_chunks("app.orders")
    pipeline.follow()
    assert leaks(target, CANARY) == []
    target.execute(
        "insert into replication.resync_due (source_id, schema_name, table_name, reason)"
        " select source_id, schema_name, table_name, 'a test' from replication.source_table"
    )
    pipeline.follow()
    assert_filtered(pipeline)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("note = 'open'", 'column "note", which is not of the replica identity'),
        ("nobody = 1", 'column "nobody", which is not there'),
        ("tenant = 0 and now() > '2020-01-01'", "not immutable"),
        ("random() < 0.5", "not immutable"),
        ("app.is_ours(tenant)", "function app.is_ours(integer), which is not PostgreSQL's own"),
        ("tenant in (select 1)", "cannot use subquery"),
        ("tenant", "is of type boolean but"),
        ("orders.tenant = 0", "otherwise than by their names alone"),
        ("tenant = 0) or (true", "syntax error"),
        ("true); drop table app.items; select (1", "not one statement"),
        ("kind = 'a'", 'column "kind", which is not of one of the types'),
        ("code = 'a'", 'column "code", which has a collation of its own'),
        ("twice = 2", 'column "twice", which is generated'),
    ],
)
def test_filter_that_could_not_be_exact_is_refused(source, target, where, reason):
    source.execute(
        TABLES,
        "create function app.is_ours(int) returns bool language sql immutable return $1 = 0",
        "create type app.kind as enum ('a')",
        'alter table app.orders add kind app.kind, add code text collate "C",'
        " add twice int generated always as (tenant * 2) stored",
    )
    pipeline = RuledPipeline(source, target, rules=[rule("app.orders", where=where)])
    with pytest.raises(ConfigError) as caught:
        pipeline.begin()
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        # The source is asked before its changes are.
        ("alter table app.orders rename tenant to client", '"tenant", which is not there'),
        ("alter table app.full_rows drop state", '"state", which is not there'),
        ("alter table app.orders rename to others", "which has other rules"),
        ("create table app.others as select * from app.orders", "fills app.others from app.orders"),
        ("create table app.others as select * from app.seen", "fills app.others from app.seen"),
        (
            (
                "create table app.others (like app.parts);"
                " alter table app.parts attach partition app.others for values in (3)"
            ),
            "makes app.others a part of app.parts",
        ),
    ],
)
def test_ddl_that_a_filter_would_not_hold_after_stops_receive(source, target, statement, reason):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    insert = f"insert into app.items (id, what) values (99, '{CANARY}')"
    source.execute(*statement.split("; "), insert)
    with pytest.raises(ConfigError, match=reason):
        pipeline.receive()
    assert leaks(target, CANARY) == []


def test_changes_after_the_identity_was_taken_away_are_not_guessed(source, target):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    source.execute(
        "alter table app.keyed_full replica identity default",
        f"update app.keyed_full set state = '{CANARY}' where id = 2",
        "alter table app.keyed_full replica identity full",
        "delete from app.keyed_full where id in (1, 4)",
    )
    pipeline.receive()
    ((table, reason),) = marked(pipeline)
    assert table == "keyed_full"
    assert "does not tell whether" in reason
    assert leaks(target, CANARY) == []
    pipeline.follow()
    pipeline.follow()
    assert marked(pipeline) == []
    assert_filtered(pipeline)


@pytest.mark.parametrize(
    ("seed", "plugin"),
    [
        (1, "pgoutput"),
        *(
            pytest.param(seed, plugin, marks=pytest.mark.soak)
            for seed in range(2, 8)
            for plugin in ("pgoutput", "wal2json")
        ),
    ],
)
def test_target_is_the_filtered_source_after_random_transactions(source, target, seed, plugin):
    dice = random.Random(seed)
    source.execute(RANDOM_TABLES)
    rules = [
        rule("public.plain", where="id % 3 <> 0", constant={"note": "n"}),
        rule("public.wide", where="a % 2 = 0 or b <> 'b'", omit=("n", "g")),
        rule("public.bag", where="x > 2 or y like 'z%'"),
        rule("public.whole", where="x % 2 = 0"),
        rule("public.by_index", where="k > 5"),
        rule("public.parts*", where="id < 10"),
    ]
    pipeline = RuledPipeline(source, target, plugin=plugin, rules=rules)
    pipeline.begin()
    for number in range(3):
        change_at_random(source, dice, 25)
        if number == 1:
            source.execute(
                "alter table bag add column more int default 4",
                "alter table whole alter x type bigint",
                "alter table parts alter id type bigint",
            )
        pipeline.follow()
        pipeline.follow()
        assert marked(pipeline) == [], seed
        assert pipeline.masked_differences("public") == [], seed
        assert not pipeline.verify().has_differences, seed
