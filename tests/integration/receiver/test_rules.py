"""Columns are masked before anything of them is kept; DDL that would undo that stops receiving."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import switch
from pgrepl.errors import ConfigError, TargetError
from tests.support.running.ruled import SALT, RuledPipeline, leaks, rule

CANARY = "CANARY-7f3a"
TABLES = f"""
create schema app;
create table app.people (id int primary key, name text not null, mail text, age int, note text);
create table app.others (id int primary key, note text);
insert into app.people values (1, '{CANARY} 1', '{CANARY}@x', 47, '{CANARY}');
insert into app.others values (1, 'open');
"""
RULES = [rule("app.people*", hash=("mail",), null=("note",), constant={"name": "x", "age": "1"})]

pytestmark = pytest.mark.usefixtures("_salt")


@pytest.fixture
def _salt(monkeypatch):
    monkeypatch.setenv("PGREPL_SALT", SALT)


@pytest.fixture
def plugin() -> str:
    return "wal2json"


@pytest.fixture
def pipeline(source, target, plugin) -> RuledPipeline:
    source.execute(TABLES)
    made = RuledPipeline(source, target, plugin=plugin, rules=RULES)
    made.begin()
    return made


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_neither_copy_nor_spool_has_a_value_of_a_masked_column(pipeline):
    assert pipeline.masked_differences("app") == []
    pipeline.source.execute(
        "alter table app.people replica identity full",
        f"insert into app.people values (2, '{CANARY}', '{CANARY}', null, null)",
        f"update app.people set mail = '{CANARY}2', note = 'n' where id = 1",
        "delete from app.people where id = 2",
        f"insert into app.others values (2, 'seen{CANARY[:3]}')",
    )
    pipeline.receive()
    assert leaks(pipeline.target, CANARY, SALT) == []
    # What has no rule is there.
    assert leaks(pipeline.target, f"seen{CANARY[:3]}") == ["replication.raw_messages"]


@pytest.mark.parametrize("plugin", ["wal2json", pytest.param("pgoutput", marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("alter table app.people rename to clients", "gives a table the name app.clients"),
        ("alter table app.people set schema public", "gives a table the name public.people"),
        ("alter schema app rename to crm", "gives a table the name crm.people"),
        ("alter table app.people rename mail to post", 'gives column "mail" the name "post"'),
        ("do $$ begin execute 'alter table app.people rename mail to post'; end $$", "mail"),
        (
            "alter table app.people add upper_name text generated always as (upper(name)) stored",
            'generates column "upper_name" of app.people from "name"',
        ),
        ("create table app.child () inherits (app.people)", "makes app.child a part of app.people"),
        ("create table app.copy as select * from app.people", "fills app.copy from app.people"),
        ("select mail into app.copy from app.people", "fills app.copy from app.people"),
        ("create table app.copy as select * from app.seen", "fills app.copy from app.seen"),
        (
            "set search_path = app; create table copy as with people as (table people) select",
            "fills app.copy from app.people",
        ),
        (
            "create view app.v as table app.seen; select into app.copy from app.v; drop view app.v",
            "fills app.copy from app.v",
        ),
    ],
)
def test_receiving_stops_before_ddl_after_which_values_would_show(pipeline, statement, what):
    source = pipeline.source
    source.execute("create view app.seen as select mail from app.people")
    source.execute(statement)
    for table in ("app.clients", "public.people", "crm.people", "app.people", "app.child"):
        if source.value(f"select to_regclass('{table}')"):
            source.execute(f"insert into {table} values (7, '{CANARY}', '{CANARY}', 1, '{CANARY}')")
    with pytest.raises(ConfigError, match="nothing reaches the target") as caught:
        pipeline.receive()
    assert what in caught.value.message
    assert leaks(pipeline.target, CANARY) == []


@pytest.mark.parametrize("plugin", ["pgoutput"])
def test_receiving_goes_on_when_the_new_names_have_the_same_rules(pipeline):
    pipeline.source.execute(
        "alter table app.people rename to clients",
        "alter table app.clients rename mail to post",
        f"insert into app.clients values (7, '{CANARY}', '{CANARY}', 1, '{CANARY}')",
        "create table app.copy as select * from app.clients",
    )
    with pytest.raises(ConfigError):
        pipeline.receive()
    pipeline.rules = [
        rule(
            "app.people*",
            "app.clients",
            "app.copy",
            hash=("mail", "post"),
            null=("note",),
            constant={"name": "x", "age": "1"},
        )
    ]
    pipeline.receive()
    assert leaks(pipeline.target, CANARY) == []
    assert pipeline.spool_count() > 0


def test_ddl_that_shows_nothing_is_received(pipeline):
    pipeline.source.execute(
        "alter table app.people add column more text default 'm'",
        "alter table app.people rename more to other",
        "alter table app.others rename to others_too",
        "create table app.made as select * from app.others_too",
        "create temporary table t as select * from app.people",
    )
    pipeline.receive()
    assert pipeline.spool_count() > 0


def test_rows_of_materialized_views_are_not_received(pipeline):
    """Over wal2json; pgoutput does not send them."""
    source = pipeline.source
    source.execute(
        # The rows that it is made with, and those that a REFRESH changes.
        "create materialized view app.seen as select id, mail from app.people;"
        " create unique index on app.seen (id)",
        f"update app.people set mail = '{CANARY}-new'",
        "refresh materialized view concurrently app.seen",
        # Made and dropped before anything is received.
        "create materialized view app.brief as select mail from app.people",
        "drop materialized view app.brief",
        # With the name of a table.
        "begin; insert into app.others values (5, 'five'); drop table app.others;"
        " create materialized view app.others as select mail from app.people; commit",
        # Tables are followed under whatever names they had.
        "create table app.made as select 1 as id; alter table app.made add primary key (id)",
        "begin; insert into app.made values (2); alter table app.made rename to kept;"
        " create materialized view app.made as select mail from app.people; commit",
        "begin; create table app.young (id int primary key); insert into app.young values (3);"
        " alter table app.young rename to old; commit",
        "insert into app.old values (4)",
    )
    pipeline.receive()
    assert leaks(pipeline.target, CANARY) == []
    pipeline.follow()
    ids = "select array_agg(id order by id) from"
    assert pipeline.target.value(f"{ids} {pipeline.schema('app')}.kept") == [1, 2]
    assert pipeline.target.value(f"{ids} {pipeline.schema('app')}.old") == [3, 4]


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_values_beside_ddl_in_one_message_are_not_in_what_is_captured(pipeline):
    values = f"'{CANARY}', '{CANARY}', 1, '{CANARY}'"
    pipeline.source.execute(
        f"create table app.a (id int primary key); insert into app.people values (11, {values});"
        " create table app.b (id int primary key)",
        f"do $$ begin create table app.c (id int primary key); insert into app.people values"
        f" (12, {values}); end $$",
        f"do $$ begin execute 'create table app.d (id int); insert into app.people values (13,"
        f" ' || $x${values}$x$ || ')'; end $$",
        "create function app.make(text) returns void language sql as 'create table app.e (id int"
        " primary key); insert into app.people values (14, $1, $1, 1, $1)'",
        f"select app.make('{CANARY}')",
    )
    pipeline.receive()
    assert leaks(pipeline.target, CANARY) == []
    pipeline.follow()
    assert leaks(pipeline.target, CANARY) == []
    made = pipeline.target.rows(
        "select relname::text from pg_class where relkind = 'r' and relname ~ '^.$'"
        f" and relnamespace = '{pipeline.schema('app')}'::regnamespace order by 1"
    )
    assert [name for (name,) in made] == ["a", "b", "c", "d", "e"]
    assert pipeline.masked_differences("app") == []


def test_tables_whose_rules_changed_are_due_and_no_copy_by_other_rules_is_made(pipeline):
    pipeline.rules = [rule("app.others", null=("note",)), *RULES]
    with pytest.raises(TargetError, match="masked by other rules"):
        pipeline.copy_again("app.others")
    pipeline.receive()
    due = "select table_name::text, reason from replication.resync_due"
    ((table, reason),) = pipeline.target.rows(due)
    assert (table, "its rules changed" in reason) == ("others", True)


def test_another_salt_is_another_rule(pipeline, monkeypatch):
    monkeypatch.setenv("PGREPL_SALT", f"{SALT}-2")
    pipeline.receive()
    due = "select table_name::text from replication.resync_due"
    assert pipeline.target.rows(due) == [("people",)]


def test_rules_that_break_identity_are_refused(pipeline):
    pipeline.rules = [rule("app.others", constant={"id": "1"})]
    with pytest.raises(ConfigError, match="key that tells rows apart"):
        pipeline.receive()


def test_nothing_is_received_by_rules_while_no_ddl_is_captured(pipeline):
    switch(pipeline.config.sources[pipeline.source.name], is_on=False)
    with pytest.raises(ConfigError, match="no DDL is captured"):
        pipeline.receive()
