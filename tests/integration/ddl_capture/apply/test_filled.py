"""Tables made of what the target does not have: views, functions, tables that are not selected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.throwaway import Cluster
from tests.support.database import KeptDatabase
from tests.support.ddl.following import Following

SETUP = """
create schema app; create schema secret;
create type app.mood as enum ('good', 'bad');
create domain app.code as text check (value <> '');
create table app.a (id int primary key, v varchar(7) collate "C", m app.mood,
                    c app.code, n numeric(9, 2));
insert into app.a values (1, 'x', 'good', 'c1', 1.5), (2, 'y', 'bad', 'c2', null);
create table secret.s (id int primary key, name text not null, at timestamptz default now(),
                       n int check (n > 0), unique (name));
insert into secret.s values (1, 'one', '2026-01-01', 5);
create view app.seen as select id, v, m, c, n * 2 as twice, array[m] as moods from app.a;
create function app.rows() returns table (id int, label text) language sql as
    'select id, v::text from app.a';
"""


@pytest.fixture(scope="module")
def kept(source_cluster: Cluster, target_cluster: Cluster) -> Iterator[Following]:
    """One pair of databases for all tests; each begins with no schema in it."""
    pair = (KeptDatabase(source_cluster, "filled"), KeptDatabase(target_cluster, "filled"))
    for database in pair:
        database.cluster.create_database(database.name)
    yield Following(*pair, exclude=["secret.*"]).begin()
    for database in pair:
        database.drop()


@pytest.fixture
def following(kept: Following) -> Following:
    kept.start_over()
    kept.target.execute("delete from replication.ddl_history")
    kept.run(SETUP)
    return kept


@pytest.mark.parametrize(
    "message",
    [
        "create table app.n as select * from app.seen",
        "create table app.n as select * from app.rows()",
        "create table app.n as select s.*, a.v from secret.s, app.a",
        "create table app.n (one, two) as select id, m from app.seen",
        "create table app.n with (fillfactor = 70) as select * from app.seen",
        "create table app.n as select * from app.seen with no data",
        "select * into app.n from app.seen",
        "set search_path = app, secret; create table n as select id, name from s",
        "set search_path = app; select id, label into n from rows()",
        "prepare p as select * from app.seen; create table app.n as execute p",
        (
            "begin; create table app.n as select * from app.seen;"
            " alter table app.n add primary key (id); update app.n set id = 7 where id = 1;"
            " insert into app.n (id) values (9); commit"
        ),
        (
            "create table if not exists app.n as select 1 as x;"
            " create table if not exists app.n as select * from app.seen"
        ),
        (
            "begin; create table app.n as select 0 as z;"
            " create table if not exists app.n as select 1; drop table app.n;"
            " create table app.n as select * from app.seen; commit"
        ),
        (
            "do $$ begin for i in 1..2 loop"
            " create table if not exists app.n as select * from app.seen; end loop; end $$"
        ),
        "create table app.n (like app.seen)",
        "create table app.n (like secret.s)",
        "create table app.n (like secret.s including all)",
        "create table app.n (like secret.s including constraints, more text not null)",
        "set search_path = app, secret; create table n (like s including indexes)",
        "create table app.n (like pg_catalog.pg_am)",
        "create table app.n (like app.a including all)",
    ],
)
def test_table_is_made_of_the_structure_and_filled_by_the_stream(following, message):
    following.run(message)
    assert following.problems("app") == []
    assert following.pending() == []
    assert following.target.value("select to_regclass('tgt_app.n')")
    if "fillfactor" in message:
        found = "select reloptions from pg_class where oid = 'tgt_app.n'::regclass"
        assert following.target.value(found) == ["fillfactor=70"]


def test_statement_in_the_history_is_the_one_that_ran(following):
    following.run("create table app.n as select id, m from app.seen")
    ((original, remapped),) = following.target.rows(
        "select original, remapped from replication.ddl_history where tag = 'CREATE TABLE AS'"
    )
    assert original == "create table app.n as select id, m from app.seen"
    assert remapped == 'create table "tgt_app"."n" ("id" integer, "m" "tgt_app".mood)'


def test_table_that_comes_into_replication_is_made_by_its_copy_alone(following):
    following.run(
        "create table secret.n (id int primary key,"
        " x text check (set_config('a.b', x, true) is not null))"
    )
    following.run("alter table secret.n set schema app", "insert into app.n values (1, 'x')")
    assert following.pending() == []
    # Which brings no function that the rules refuse, as a basebackup does not.
    assert following.target.value("select to_regclass('tgt_app.n')") is None
    assert set(following.resyncs()) == {"n"}


@pytest.mark.parametrize(
    ("action", "place"),
    [
        ("alter table app.%I rename to renamed", "app.renamed"),
        ("alter table app.%I set schema moved", "moved.n"),
    ],
)
def test_rows_follow_a_table_that_an_event_trigger_renames_as_it_is_made(following, action, place):
    following.run(
        "create schema moved; create function moved.at_once() returns event_trigger language"
        " plpgsql as $$ begin if to_regclass('app.n') is not null then execute"
        f" format('{action}', 'n'); end if; end $$; create event trigger aaa_at_once on"
        " ddl_command_end when tag in ('CREATE TABLE AS') execute function moved.at_once()"
    )
    following.run(
        "create table app.n as select 1 as id",
        "drop event trigger aaa_at_once",
        f"insert into {place} values (2)",
    )
    assert following.pending() == []
    schema = place.split(".")[0]
    assert following.problems(schema) == []
    assert following.target.value(f"select count(*) from tgt_{place}") == 2
    assert following.resyncs() == {}
