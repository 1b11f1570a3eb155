"""What a superuser of a source makes its catalogue say is never run on the target."""

from __future__ import annotations

import pytest

from pgrepl.errors import DdlStopped

#: PostgreSQL's own function is replaced: what the triggers ask says what the attacker likes.
LIE = "create or replace function pg_catalog.{} returns text language sql as $lie$ select {} $lie$"


@pytest.fixture
def spied(follow):
    following = follow(exclude=["un.*"], include=["views"])
    following.target.execute("create schema spy", "create sequence spy.ran")
    following.run(
        "create schema app; create table app.other (id int primary key); create schema un;"
        " create table un.z (id int primary key, n int, constraint c check (n > 0));"
        " create unique index z_n on un.z (n)"
    )
    return following


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("pg_get_indexdef(oid)", "do $$ begin perform nextval('spy.ran'); end $$"),
        ("pg_get_indexdef(oid)", "select nextval('spy.ran')"),
        ("pg_get_indexdef(oid)", "copy (select nextval('spy.ran')) to '/dev/null'"),
        ("pg_get_indexdef(oid)", "set role postgres"),
        ("pg_get_indexdef(oid)", "select 1; select 2"),
        ("pg_get_indexdef(oid)", "alter table app.z disable trigger all"),
        ("pg_get_constraintdef(oid)", "check (true); do $$ begin null; end $$"),
        ("pg_get_constraintdef(oid)", "primary key (id), disable trigger all"),
        ("pg_get_constraintdef(oid)", "primary key (id), add check (true)"),
    ],
)
def test_structure_that_the_source_reports_is_no_statement_to_run(spied, function, text):
    spied.source.execute(LIE.format(function, "'" + text.replace("'", "''") + "'::text"))
    with pytest.raises(DdlStopped):
        spied.run("create table app.z (like un.z including all)")
    assert not spied.target.value("select is_called from spy.ran")
    assert len(spied.pending()) == 1


def test_table_that_comes_in_is_not_made_of_what_the_source_reports(spied):
    text = "do $$ begin perform nextval(''spy.ran''); end $$"
    spied.source.execute(LIE.format("pg_get_indexdef(oid)", f"'{text}'::text"))
    spied.run("alter table un.z set schema app")
    assert not spied.target.value("select is_called from spy.ran")
    assert spied.target.value("select to_regclass('tgt_app.z') is null")
    assert not spied.pending()


def test_view_that_a_schema_is_made_with_is_judged_like_any_other(spied):
    spied.source.execute("create extension xml2")
    spied.target.execute("create extension xml2", "create table spy.secrets (id int, doc text)")
    spied.run(
        "create schema s create view v as select * from"
        " public.xpath_table('id', 'doc', 'spy.secrets', '/', 'true') as t (id int, doc text)"
        " create table t (id int primary key)"
        " create view w as select 1 as one"
    )
    assert spied.target.rows(
        "select relname::text from pg_class where relnamespace = 'tgt_s'::regnamespace"
        " and relkind in ('r', 'v') order by 1"
    ) == [("t",), ("w",)]
    assert ("view", "v") in spied.target.rows(
        "select kind, table_name::text from replication.skipped_code where schema_name = 's'"
    )
