"""What a statement's text cannot reproduce is noticed."""

from __future__ import annotations

import pytest

from pgrepl.errors import DdlStopped

TABLE = (
    "create schema app; create table app.a (id int primary key, n int, at timestamptz, s text);"
    " insert into app.a values (1, 1, now(), '2'), (2, 2, now(), '3')"
)


@pytest.mark.parametrize(
    "ddl",
    [
        "alter table app.a add c double precision default random()",
        "alter table app.a add c timestamptz default now()",
        "alter table app.a add c timestamptz default current_timestamp",
        "alter table app.a add c text default current_user",
        "alter table app.a add c uuid default gen_random_uuid()",
        "alter table app.a add c serial",
        "alter table app.a add c int generated always as identity",
        "set timezone = 'Europe/Berlin'; alter table app.a alter at type timestamp",
        "alter table app.a alter at type text",
        "alter table app.a alter n type timestamptz using to_timestamp(n) + interval '1 day'",
        "alter table app.a alter s type text using s || at",
        "alter table app.a add c text default ('now'::text)::timestamptz",
        "create domain app.d as double precision default random(); alter table app.a add c app.d",
        (
            "create domain app.d as uuid default gen_random_uuid(); create domain app.e as app.d;"
            " alter table app.a add c app.e"
        ),
    ],
)
def test_values_that_only_the_source_knows_mark_the_table(follow, ddl):
    following = follow()
    following.run(TABLE, ddl)
    assert set(following.resyncs()) == {"a"}
    assert following.target.rows("select table_name from replication.resync_due") == [("a",)]
    assert following.pending() == []


OWN = "create function app.own({}) returns {} immutable language sql as 'select {}'; "
#: What the target has not, and would take PostgreSQL's for.
HOMONYMS = {
    "operator": (
        OWN.format("int, int", "int", "42")
        + "create operator app.+ (leftarg = int, rightarg = int, function = app.own)",
        "set search_path = app, pg_catalog; alter table a alter n type int using n + 1",
    ),
    "operator_of_a_default": (
        OWN.format("int, int", "int", "42")
        + "create operator app.+ (leftarg = int, rightarg = int, function = app.own)",
        "set search_path = app, pg_catalog; alter table a add c int default 1 + 2",
    ),
    "function": (
        OWN.format("text", "text", "''own''").replace("app.own", "app.lower"),
        "set search_path = app, pg_catalog; alter table a alter s type text using lower(s)",
    ),
    "function_that_fits_better": (
        OWN.format("int", "int", "42").replace("app.own", "app.sqrt"),
        "set search_path = app; alter table a alter n type int using sqrt(n)::int",
    ),
    "cast": (
        OWN.format("int", "text", "''own''")
        + "create cast (int as text) with function app.own(int) as assignment",
        "alter table app.a alter n type text",
    ),
}


@pytest.mark.parametrize(("own", "ddl"), HOMONYMS.values(), ids=HOMONYMS)
def test_names_of_postgresqls_that_mean_what_only_the_source_has_mark_the_table(follow, own, ddl):
    following = follow()
    try:
        following.run(TABLE, own, ddl)
        assert set(following.resyncs()) == {"a"}
        assert following.pending() == []
    finally:
        # A cast is in no schema.
        following.source.execute("drop function if exists app.own(int) cascade")


@pytest.mark.parametrize(
    "ddl",
    [
        "alter table app.a add c int default 5",
        "alter table app.a add c text default upper('x')",
        "alter table app.a alter n type bigint",
        "alter table app.a alter s type int using s::int + 1",
        "alter table app.a alter n type timestamptz using to_timestamp(n)",
        "create domain app.d as int default 5 check (value > 0); alter table app.a add c app.d",
        # It has a cast to its multirange type.
        "create type app.r as range (subtype = int4); alter table app.a add c int default 5",
        "alter table app.a alter at set default now()",
        "create table app.b (id serial primary key, c date default now())",
        "create table app.b (id int primary key); alter table app.b add c serial",
    ],
)
def test_what_the_text_reproduces_marks_nothing(follow, ddl):
    following = follow()
    following.run(TABLE, ddl)
    assert following.resyncs() == {}
    assert following.problems("app") == []


def test_what_became_unlogged_is_not_copied_again_and_again(follow):
    following = follow()
    following.run(TABLE, "alter table app.a add c serial", "alter table app.a set unlogged")
    assert set(following.resyncs()) == {"a"}
    assert following.target.rows("select from replication.resync_due") == []
    following.run("alter table app.a set logged")
    assert following.target.rows("select table_name from replication.resync_due") == [("a",)]


def test_children_are_marked_with_their_parent(follow):
    following = follow()
    following.run(
        "create schema app; create table app.p (id int primary key);"
        " create table app.c (primary key (id)) inherits (app.p);"
        " create table app.g (primary key (id)) inherits (app.c); insert into app.g values (1)",
        "alter table app.p add c timestamptz default now()",
    )
    assert set(following.resyncs()) == {"p", "c", "g"}


def test_partitions_are_marked_in_the_place_of_their_root(follow):
    following = follow()
    following.run(
        "create schema app; create table app.p (id int primary key) partition by range (id);"
        " create table app.p1 partition of app.p for values from (0) to (10);"
        " insert into app.p values (1)",
        "alter table app.p add c timestamptz default now()",
    )
    assert set(following.resyncs()) == {"p1"}
    assert following.target.rows("select table_name from replication.resync_due") == [("p1",)]


#: Nothing identifies their rows, so that updates and deletes are not sent.
UNIDENTIFIED = (
    "create schema app; create domain app.small as int; create table app.k (id int primary key);"
    " insert into app.k values (1), (4); create table app.n (id int, v int, s app.small);"
    " insert into app.n values (1, 7, 70), (2, 7, 70), (3, null, 70);"
    " create table app.p (id int, v int) partition by list (v);"
    " create table app.rest partition of app.p default; insert into app.p values (1, 7), (2, 8)"
)
CORRECTED = "update app.n set v = id, s = 1; update app.p set v = 9 where v = 7"


@pytest.mark.parametrize(
    ("ddl", "table"),
    [
        ("alter table app.n add unique (v)", "n"),
        ("alter table app.n add primary key (v)", "n"),
        ("create unique index on app.n (v)", "n"),
        ("alter table app.n alter v set not null, add c int default 5", "n"),
        ("alter table app.n add check (v < 7)", "n"),
        (
            (
                "alter table app.n add check (v < 7) not valid;"
                " alter table app.n validate constraint n_v_check"
            ),
            "n",
        ),
        ("alter table app.n add exclude (v with =)", "n"),
        (
            "delete from app.n where v > 1; alter table app.n add foreign key (v) references app.k",
            "n",
        ),
        ("alter domain app.small add check (value < 10)", "n"),
        ("create table app.seven partition of app.p for values in (7)", "rest"),
        (
            (
                "create table app.seven (id int, v int);"
                " alter table app.p attach partition app.seven for values in (7)"
            ),
            "rest",
        ),
    ],
)
def test_rows_that_break_what_the_source_made_of_its_own_are_copied_again(follow, ddl, table):
    following = follow()
    following.run(UNIDENTIFIED, CORRECTED, ddl, f"insert into app.{table} values (4, 4)")
    assert set(following.resyncs()) == {table}
    assert following.target.rows("select table_name from replication.resync_due") == [(table,)]
    # Until then there are no rows, and nothing is added to them.
    assert following.target.value(f"select count(*) from tgt_app.{table}") == 0
    assert [item for item in following.problems("app") if item[0] != "rows"] == []


def test_rows_are_removed_that_refer_to_what_a_detached_partition_holds(follow):
    following = follow()
    following.run(
        "create schema app; create table app.p (id int primary key) partition by list (id);"
        " create table app.one partition of app.p for values in (1); insert into app.p values (1);"
        " create table app.r (id int references app.p); insert into app.r values (1)",
        "delete from app.r; alter table app.p detach partition app.one",
    )
    assert set(following.resyncs()) == {"r"}
    assert following.problems("app") == []


def test_foreign_key_to_rows_that_were_never_sent_is_skipped_until_the_copy(follow):
    following = follow()
    following.run(
        "create schema app; create table app.k (id int unique); insert into app.k values (1);"
        " create table app.r (id int primary key, k int); insert into app.r values (1, 5)",
        "update app.k set id = 5; alter table app.r add foreign key (k) references app.k (id)",
    )
    assert set(following.resyncs()) == {"k"}
    assert following.target.value("select count(*) from tgt_app.r") == 1
    assert following.target.rows("select kind from replication.skipped_code") == [("foreign key",)]


def test_rows_that_the_source_vouches_for_are_kept_when_they_break_something(follow):
    following = follow()
    following.run(TABLE)
    following.target.execute("update tgt_app.a set n = 1")
    with pytest.raises(DdlStopped, match="could not create unique index"):
        following.run("alter table app.a add unique (n)")
    assert following.target.value("select count(*) from tgt_app.a") == 2
    assert following.resyncs() == {}
