"""What may be applied is a list; everything else is skipped by rule, or refused."""

from __future__ import annotations

import pytest

from pgrepl.config.model import CODE_KINDS
from pgrepl.ddl_capture.apply.statement.qualify import CaptureMap
from pgrepl.ddl_capture.policy.rules import Included, RefusedError, refine, skip_reason
from pgrepl.syntax.parse import parse, to_sql
from pgrepl.syntax.remap import RemapError, remap

EVERYTHING = ("views", "functions", "triggers", "grants", "policies")


def judged(sql: str, kinds=EVERYTHING, *, is_code_trusted: bool = True) -> str:
    (tree,) = parse(sql)
    include = Included(kinds, is_code_trusted=is_code_trusted)
    reason = skip_reason(tree, include) or refine(tree, include)
    return f"skipped: {reason}" if reason else to_sql(tree)


@pytest.mark.parametrize(
    "sql",
    [
        "copy a from program 'rm -rf /'",
        "copy a to '/etc/passwd'",
        "alter system set wal_level = minimal",
        "set role postgres",
        "create role mallory superuser",
        "alter role pgrepl superuser",
        "grant pg_read_all_data to mallory",
        "create database x",
        "drop database x",
        "do 'begin end'",
        "select set_config('a', 'b', true)",
        "insert into a values (1)",
        "truncate a",
        "call p()",
        "create event trigger e on sql_drop execute function f()",
        "create tablespace t location '/x'",
        "lock table a",
        "vacuum a",
        "load 'x'",
        "listen x",
    ],
)
def test_statement_of_no_known_kind_is_refused(sql):
    with pytest.raises(RefusedError):
        judged(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "create function f() returns int language c as 'x', 'y'",
        "create function f() returns int language plpython3u as 'return 1'",
        "create function f() returns int language 'PlPerlU' as '1'",
        "create function f() returns int language sql security definer as 'select 1'",
        "create function f() returns int language sql leakproof as 'select 1'",
        "create function f() returns int language sql set role = x as 'select 1'",
        "create function f() returns int language sql set session_replication_role = x as ''",
        "create function f() returns int language sql support x as 'select 1'",
        "alter function f() security definer",
        "alter function f() set work_mem = '1GB'",
        "grant select on a to b with grant option",
        "alter table a options (add b 'c')",
    ],
)
def test_statement_that_gives_more_power_is_refused(sql):
    with pytest.raises(RefusedError):
        judged(sql)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "alter table a add b int, owner to x, set tablespace y, force row level security",
            "ALTER TABLE a ADD COLUMN b int",
        ),
        ("alter table a add b int, enable always trigger t", "ALTER TABLE a ADD COLUMN b int"),
        ("create table a (b int) tablespace t", "CREATE TABLE a (b int)"),
        (
            "create index concurrently i on a (b) tablespace t",
            "CREATE INDEX i ON a USING btree (b)",
        ),
        ("drop index concurrently i", "DROP INDEX IF EXISTS i"),
        ("alter table a detach partition b concurrently", "ALTER TABLE a DETACH PARTITION b"),
        ("create schema s authorization x", "CREATE SCHEMA s"),
    ],
)
def test_what_is_the_sources_own_is_taken_out(sql, expected):
    assert judged(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "alter table a owner to b",
        "alter table a disable trigger all",
        "create extension x",
        "create rule r as on insert to a do nothing",
        "create foreign table a (b int) server s",
        "create publication p",
        "alter default privileges grant select on tables to x",
        "create materialized view m as select 1",
        "create operator = (leftarg = int, function = f)",
        "alter type a set (send = f)",
        "create cast (int as text) with function f",
        "alter view a owner to b",
    ],
)
def test_what_a_copy_has_not_is_skipped(sql):
    assert judged(sql).startswith("skipped: ")


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        ("views", "create view v as select 1"),
        ("views", "drop view v"),
        ("functions", "create function f() returns int language sql as 'select 1'"),
        ("functions", "drop function f()"),
        ("triggers", "create trigger t after insert on a execute function f()"),
        ("grants", "grant select on a to b"),
        ("policies", "create policy p on a"),
        ("policies", "alter table a enable row level security"),
    ],
)
def test_kind_is_applied_when_it_is_included(kind, sql):
    assert judged(sql, ()).startswith("skipped: ")
    assert not judged(sql, (kind,)).startswith("skipped: ")
    is_skipped = judged(sql, (kind,), is_code_trusted=False).startswith("skipped: ")
    assert is_skipped == (kind in CODE_KINDS)


NAMES = CaptureMap({"app": "t_app"}, {("public", "citext"): "ext"})


@pytest.mark.parametrize(
    "sql",
    [
        "create table replication.x ()",
        "alter table t_other.a add b int",
        "create table app.a (b other.c)",
        "create table app.a () inherits (bi.b)",
        "alter table app.a set schema bi",
        "alter table app.a alter b set default nextval('bi.s')",
        "drop table bi.a",
        "create table app.a (b public.hstore)",
    ],
)
def test_name_outside_the_sources_schemas_is_refused(sql):
    (tree,) = parse(sql)
    with pytest.raises(RemapError, match="not replicated"):
        remap(tree, NAMES)


def test_members_of_extensions_and_the_catalogue_may_be_named():
    (tree,) = parse("create table app.a (b public.citext, c pg_catalog.int4)")
    assert remap(tree, NAMES).sql == "CREATE TABLE t_app.a (b ext.citext, c int)"
