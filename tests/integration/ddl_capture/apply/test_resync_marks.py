"""What a statement's text cannot reproduce is noticed."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    "ddl",
    [
        "alter table app.a add c int default 5",
        "alter table app.a add c text default upper('x')",
        "alter table app.a alter n type bigint",
        "alter table app.a alter s type int using s::int + 1",
        "alter table app.a alter n type timestamptz using to_timestamp(n)",
        "create domain app.d as int default 5 check (value > 0); alter table app.a add c app.d",
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
