"""Statements of a dump that cannot be printed again, or that come in an order of their own."""

from __future__ import annotations

from tests.support.running.copying import copy


def test_type_that_cannot_be_printed_is_copied(source, target):
    source.execute(
        'create type span as range (subtype = text, collation = "C")',
        "create table t (id int primary key, s span)",
        "insert into t values (1, '[a,b)')",
    )
    copy(target, source)
    schema = f"{source.name}_public"
    assert target.rows(f"select id, s::text from {schema}.t") == [(1, "[a,b)")]
    assert target.value(
        "select l.collname::text from pg_range r join pg_collation l on l.oid = r.rngcollation"
        f" where r.rngtypid = '{schema}.span'::regtype"
    ) == "C"  # fmt: skip


def test_comments_on_foreign_keys_follow_them(source, target):
    source.execute(
        "create table one (id int primary key)",
        "create table two (id int constraint plain references one)",
        "create table three (id int constraint late references one) partition by list (id)",
        "create table three_1 partition of three default",
        "insert into one values (1)",
        "insert into two values (1)",
        "insert into three values (1)",
        "comment on constraint plain on two is 'of two'",
        "comment on constraint late on three is 'of three'",
    )
    copy(target, source)
    comments = target.rows(
        "select conname::text, obj_description(oid, 'pg_constraint'), convalidated"
        " from pg_constraint where conname in ('plain', 'late') and conparentid = 0 order by 1"
    )
    assert comments == [("late", "of three", True), ("plain", "of two", True)]


def test_default_that_names_what_is_not_copied_is_skipped(source, target):
    source.execute(
        "create view v as select 1 as one",
        "create function f() returns int language sql as 'select 1'",
        "create table other (id int primary key)",
        "create table t (id int primary key, v oid default 'v'::regclass,"
        " f text default 'f'::regproc::text, o oid default 'other'::regclass)",
        "insert into t values (1)",
    )
    copy(target, source)
    defaults = target.rows(
        "select a.attname::text from pg_attrdef d join pg_attribute a"
        " on a.attrelid = d.adrelid and a.attnum = d.adnum"
        f" where d.adrelid = '{source.name}_public.t'::regclass"
    )
    assert defaults == [("o",)]
    skipped = target.rows("select kind, name from replication.skipped_code order by 2")
    assert skipped == [("default", "f"), ("default", "v")]
    values = source.rows("select v::int8, f, o::int8 from t")
    assert target.rows(f"select v::int8, f, o::int8 from {source.name}_public.t") == values


def test_expressions_of_many_operators_are_copied(source, target):
    """As a column that is made of all others: 50 operators were the end of the command."""
    joined = " || ".join(["coalesce(a, '')"] * 60)
    source.execute(
        f"create table t (id int primary key, a text, b text generated always as ({joined}) stored,"
        f" check ({joined} <> 'x'))",
        "insert into t values (1, 'a')",
    )
    copy(target, source)
    assert target.rows(f"select b from {source.name}_public.t") == [("a" * 60,)]
