"""Tables that rules give another name on the target, the whole way."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture.missed import find_missed
from pgrepl.ddl_capture.source import CaptureStatus
from tests.integration.replayer.test_rules import export
from tests.support.running.ruled import RuledPipeline, rule

TABLES = """
create schema app;
create table app.kna1 (id int primary key, name text, n serial, boss int references app.kna1);
create table app.orders (id int primary key, kna1 int references app.kna1, note text);
create index orders_note on app.orders (note);
create table app.parts (id int, place int, n int, primary key (id, place))
    partition by list (place);
create table app.parts_0 partition of app.parts for values in (0);
create table app.parts_1 partition of app.parts for values in (1);
create table app.base (id int primary key, n int);
create table app.child (extra text, primary key (id)) inherits (app.base);
create table app.a (id int primary key, what text);
create table app.b (id int primary key, what text);
create view app.both as select k.id, o.note from app.kna1 k join app.orders o on o.kna1 = k.id;
comment on table app.kna1 is 'customers';
insert into app.kna1 (id, name, boss) select g, 'n' || g, 1 from generate_series(1, 40) g;
insert into app.orders select g, g, 'o' || g from generate_series(1, 40) g;
insert into app.parts select g, g % 2, g from generate_series(1, 40) g;
insert into app.base select g, g from generate_series(1, 9) g;
insert into app.child select g, g, 'c' from generate_series(11, 19) g;
insert into app.a select g, 'a' from generate_series(1, 9) g;
insert into app.b select g, 'b' from generate_series(1, 9) g;
"""
RULES = [
    rule("app.kna1", table="customers"),
    rule("app.parts", table="pieces"),
    rule("app.parts_1", table="Piece 1"),
    rule("app.child", table="kid"),
    rule("app.a", table="b"),
    rule("app.b", table="a"),
    rule("app.later", table="now"),
]
COPIED = ["Piece 1", "a", "b", "base", "customers", "kid", "orders", "parts_0", "pieces"]
CHANGES = (
    "insert into app.kna1 values (100, 'x', default, 1)",
    "update app.kna1 set name = 'y' where id < 5",
    "update app.parts set place = 1 - place where id < 9",
    "delete from app.orders where id = 3",
    "update app.child set extra = 'd' where id = 11",
    "update app.base set n = 0 where id in (3, 13)",
    "update app.a set what = 'A'; delete from app.b where id > 7",
    "truncate app.b; insert into app.b values (1, 'again')",
)
DDL = (
    "alter table app.kna1 add column more int default 3",
    "update app.kna1 set more = 4 where id < 9",
    "comment on table app.kna1 is 'others'; comment on column app.kna1.more is 'more'",
    "create index on app.kna1 (more); create unique index kna1_name on app.kna1 (id, name)",
    "alter table app.kna1 rename more to less; alter table app.kna1 alter less type bigint",
    "alter table app.orders add column second int references app.kna1 (id)",
    "alter table app.kna1 add constraint positive check (id > 0), alter less set not null",
    "create sequence app.numbers owned by app.kna1.less",
    "alter table app.kna1 alter less set default nextval('app.numbers')",
    "create view app.more as select id, less from app.kna1",
    "create table app.parts_2 partition of app.parts for values in (2)",
    "insert into app.parts values (200, 2, 2)",
    "alter table app.parts detach partition app.parts_1",
    "insert into app.parts_1 values (201, 1, 1)",
    "alter table app.parts attach partition app.parts_1 for values in (1)",
    "alter table app.parts add column more text default 'm'",
    "alter table app.base add column more text default 'n'",
    "create table app.grandchild () inherits (app.child)",
    "insert into app.grandchild values (30, 1, 'n', 'g')",
    "alter table app.a add column of_a int; alter table app.b add column of_b int references app.a",
    "create table app.later (id int primary key, kna1 int references app.kna1)",
    "insert into app.later values (1, 1)",
    (
        "begin; alter table app.kna1 rename column less to more; update app.kna1 set more = 7 where"
        " id = 2; truncate app.orders; alter table app.kna1 drop constraint positive; commit"
    ),
    "insert into app.orders values (1, 1, 'one', 2)",
    "grant select on app.kna1 to public",
    "create table app.as_kna1 as select * from app.kna1 where id < 4",
    "alter table app.as_kna1 add primary key (id)",
    "create statistics app.together on id, more from app.kna1",
)
TABLES_IN = (
    "select array_agg(relname::text order by relname) from pg_class where relkind in ('r', 'p')"
    " and relnamespace = to_regnamespace('{}')"
)


def tables(pipeline: RuledPipeline) -> list[str]:
    found = pipeline.target.value(TABLES_IN.format(pipeline.schema("app"))) or []
    assert isinstance(found, list)
    return found


def assert_followed(pipeline: RuledPipeline) -> None:
    assert pipeline.target.rows("select original, error from replication.ddl_pending") == []
    assert pipeline.parked() == []
    assert pipeline.target.value("select count(*) from replication.resync_due") == 0
    report = pipeline.verify()
    assert report.error is None
    assert not report.has_differences, report
    assert [t for t in report.tables if t.failure or "needs" in (t.note or "")] == []
    unknown = find_missed(
        pipeline.config,
        pipeline.config.sources[pipeline.source.name],
        CaptureStatus(state="absent"),
    )
    assert unknown is None or list(unknown.differences) == []


@pytest.mark.parametrize("plugin", ["pgoutput", pytest.param("wal2json", marks=pytest.mark.soak)])
def test_renamed_table_is_followed_the_whole_way(source, target, tmp_path, plugin):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, plugin=plugin, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    assert tables(pipeline) == COPIED
    assert_followed(pipeline)
    exported = export(pipeline, tmp_path)
    source.execute(*CHANGES)
    pipeline.follow()
    assert_followed(pipeline)
    for statement in DDL:
        source.execute(statement)
    pipeline.follow()
    assert tables(pipeline) == sorted([*COPIED, "as_kna1", "grandchild", "now", "parts_2"])
    assert_followed(pipeline)
    exported += export(pipeline, tmp_path)
    assert "customers" not in exported
    assert '"kna1"' in exported
    # All of it ran as the source wrote it.
    assert (
        target.rows(
            "select original, reason from replication.ddl_history where reason like '%not run%'"
        )
        == []
    )


def test_renamed_table_that_gets_another_name_on_the_source_has_that_of_its_rule(source, target):
    source.execute(TABLES)
    pipeline = RuledPipeline(source, target, rules=RULES)
    pipeline.begin()
    pipeline.follow()
    schema = pipeline.schema("app")
    target.execute(f"create view public.seen as select * from {schema}.customers")
    source.execute(
        "alter table app.kna1 rename to kna2",
        "insert into app.kna2 (id) values (300)",
        # Another one takes its place.
        "create table app.kna3 (id int primary key, other text)",
        "insert into app.kna3 values (1, 'new')",
        "alter table app.kna3 rename to kna1",
        "update app.kna1 set other = 'newer'",
        "begin; alter table app.a rename to c; alter table app.b rename to a;"
        " alter table app.c rename to b; insert into app.a values (50, 'x'); commit",
        "drop table app.child",
        "create table app.child (id int primary key)",
        "insert into app.child values (1)",
        "alter table app.parts_1 rename to part_one",
        "create schema other",
        "alter table app.orders set schema other",
    )
    pipeline.follow()
    assert tables(pipeline) == [
        *("a", "b", "base", "customers", "kid", "kna2", "part_one", "parts_0", "pieces")
    ]
    assert target.value(f"select other from {schema}.customers") == "newer"
    assert target.value("select count(*) from public.seen") == 41
    assert_followed(pipeline)
    source.execute(
        "alter table app.kna1 set schema other",
        "update other.kna1 set other = 'moved'",
        "alter schema app rename to app2",
        "update app2.parts set n = 17",
    )
    pipeline.follow()
    found = target.rows(
        "select n.nspname::text, c.relname::text from pg_class c join pg_namespace n"
        " on n.oid = relnamespace where c.relname in ('kna1', 'customers', 'pieces', 'parts')"
        " order by 2"
    )
    assert found == [(pipeline.schema("other"), "kna1"), (pipeline.schema("app2"), "parts")]
    assert target.rows("select * from replication.target_table") == []
    assert_followed(pipeline)
