"""The target itself says what of a source's expressions may be made on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pgrepl.config.dsn import Side
from pgrepl.postgres.connect import connect
from pgrepl.source_code.probe import CodeJudge, Place, Probe, read_place
from pgrepl.syntax.parse import parse

TARGET = """
create schema shop_app;
create schema other_app;
create table public.victims (what text);
create function shop_app.f(integer) returns integer language plpgsql immutable as
    $$ begin insert into public.victims values ('ran'); return $1; end $$;
create function shop_app.lower(text) returns text language sql immutable as 'select $1';
create operator shop_app.= (leftarg = integer, rightarg = integer, function = int4eq);
create type shop_app.color as enum ('red', 'blue');
create function shop_app.to_int(shop_app.color) returns integer language plpgsql immutable as
    $$ begin return shop_app.f(1); end $$;
create cast (shop_app.color as integer) with function shop_app.to_int(shop_app.color)
    as assignment;
create domain shop_app.amount as integer check (value > 0);
create domain shop_app.bad as integer check (shop_app.f(value) > 0);
create domain shop_app.nosy as integer check (query_to_xml('select 1', true, true, '') is not null);
create type shop_app.pair as (a shop_app.bad, b integer);
create sequence shop_app.s;
create sequence other_app.s;
create operator class shop_app.backwards for type integer using btree
    as operator 1 >, operator 3 =, operator 5 <, function 1 btint4cmp(integer, integer);
create table shop_app.t (a integer, b text collate "C", c timestamptz, d date, e shop_app.color,
    f shop_app.amount, g int4range, h xml, i varchar(10), j double precision, k text[],
    "order" bytea);
"""


@pytest.fixture
def probe(target) -> Iterator[Probe]:
    target.execute(TARGET)
    with connect(target.endpoint(Side.TARGET), "test") as connection:
        judge = CodeJudge(connection, ["shop_app"])
        place = read_place(connection, "shop_app", "t")
        assert place is not None
        with judge.at(place) as probe:
            yield probe
    assert target.value("select count(*) from public.victims") == 0
    assert target.value("select count(*) from pg_class where relname = 't'") == 1


def node(sql: str):
    (statement,) = parse(f"select {sql}")
    return statement.select_stmt.target_list[0].res_target.val


ALLOWED = [
    *("a > 0", "a between 1 and 10", "b = lower(b)", "b ~ '^[a-z]+$'", "a is distinct from 1"),
    *("e = 'red'::shop_app.color", "e in ('red'::shop_app.color, 'blue')", "f + 1 > 1"),
    *("lower(g) > 3", "g && '[1,2]'::int4range", "c > '2020-01-01 00:00:00+00'::timestamptz"),
    *("(c at time zone 'UTC')::date > d", "i::text like 'a%'", "b collate \"C\" > 'a'"),
    *("a::shop_app.amount > 0", "coalesce(b, '') <> ''", "(a, b) < (1, 'x')", "1 = any (k::int[])"),
    *("t is not null", "case when a > 0 then true else false end", '"order" is null', "true"),
    "a operator(pg_catalog.=) 1",
]
REFUSED = {
    "shop_app.f(a) > 0": "function \"f\" is neither PostgreSQL's own nor an extension's",
    "shop_app.lower(b) = b": "function \"lower\" is neither PostgreSQL's own nor an extension's",
    "shop_app.f(1) > 0": "function \"f\" is neither PostgreSQL's own nor an extension's",
    "a operator(shop_app.=) 1": "operator \"=\" is neither PostgreSQL's own nor an extension's",
    "e::integer > 0": "function \"to_int\" is neither PostgreSQL's own nor an extension's",
    "a::shop_app.bad > 0": "function \"f\" is neither PostgreSQL's own nor an extension's",
    "row(a, 1)::shop_app.pair is not null": 'function "f" is neither',
    "a::shop_app.nosy > 0": 'function "query_to_xml" is not immutable',
    "query_to_xml('select 1', true, true, '') is not null": "does not take it for immutable",
    "pg_read_file('/etc/passwd') is null": "does not take it for immutable",
    "set_config('a.b', 'c', false) is null": "does not take it for immutable",
    "lo_export(1, '/tmp/x') > 0": "does not take it for immutable",
    "c < now()": "does not take it for immutable",
    "c::date > d": "does not take it for immutable",
    "b::date > d": "does not take it for immutable",
    "current_user = b": "does not take it for immutable",
    "nextval('shop_app.s') > 0": "does not take it for immutable",
    "a > (select 1)": "cannot use subquery",
    "shop_app.missing(a)": 'function "missing" does not exist on the target',
    "no_such_column > 1": "refuses it on the target",
    "1 / 0 > a": "refuses it on the target",
}


def test_checks_pass_that_only_call_immutable_functions_of_postgresql(probe):
    assert {sql: probe.expression(node(sql)).reason for sql in ALLOWED} == dict.fromkeys(ALLOWED)


def test_checks_are_refused_that_call_anything_else(probe):
    for sql, reason in REFUSED.items():
        assert reason in (probe.expression(node(sql)).reason or "allowed"), sql


def test_generated_columns_are_judged_with_the_cast_to_their_type(probe):
    assert probe.value(node("a + 1"), "bigint").is_allowed
    assert probe.value(node("to_tsvector('english'::regconfig, b)"), "tsvector").is_allowed
    assert probe.value(node("lower(b)"), "text").is_allowed
    assert not probe.value(node("d"), "timestamptz").is_allowed
    assert not probe.value(node("e"), "integer").is_allowed
    assert not probe.value(node("shop_app.f(a)"), "integer").is_allowed
    assert not probe.value(node("a"), "shop_app.bad").is_allowed


def test_defaults_may_call_what_is_harmless(probe):
    for sql, column in {
        "now()": "c",
        "clock_timestamp() + '1 day'::interval": "c",
        "now()::date": "d",
        "CURRENT_DATE": "d",
        "CURRENT_USER": "b",
        "gen_random_uuid()::text": "b",
        "random()": "j",
        "nextval('shop_app.s'::regclass)": "a",
        "to_char(now(), 'YYYY')": "b",
        "'red'::shop_app.color": "e",
    }.items():
        assert probe.default(node(sql), column).reason is None, sql
    for sql, column in {
        "shop_app.f(1)": "a",
        "nextval('other_app.s'::regclass)": "a",
        "nextval(('other_app' || '.s')::regclass)": "a",
        "nextval('other_app.s'::text)": "a",
        "nextval('shop_app.s'::text)": "a",
        "query_to_xml('select 1', true, true, '')": "h",
        "pg_read_file('/etc/passwd')": "b",
        "set_config('a.b', 'c', false)": "b",
        "current_setting('data_directory')": "b",
    }.items():
        assert probe.default(node(sql), column).reason is not None, sql


def statement(sql: str):
    (tree,) = parse(sql)
    return tree


def test_indexes_and_exclusion_constraints_are_judged_whole(probe):
    for sql in ("(lower(b))", "(a) where a > 0", "(b text_pattern_ops)", "using gist (g)"):
        assert probe.index(statement(f"create index x on shop_app.t {sql}")).is_allowed, sql
    assert probe.index(statement("create unique index x on shop_app.t (b, (a + 1))")).is_allowed
    for sql in (
        "(shop_app.f(a))",
        "(a) where shop_app.f(a) > 0",
        "(a shop_app.backwards)",
        "((c::date))",
        "using no_such_method (a)",
    ):
        assert not probe.index(statement(f"create index x on shop_app.t {sql}")).is_allowed, sql

    def exclusion(sql: str):
        tree = statement(f"alter table x add constraint x exclude {sql}")
        return getattr(tree.alter_table_stmt.cmds[0].alter_table_cmd, "def").constraint

    assert probe.constraint(exclusion("using gist (g with &&)")).is_allowed
    assert not probe.constraint(exclusion("(a with operator(shop_app.=))")).is_allowed
    assert not probe.constraint(exclusion("(shop_app.f(a) with =)")).is_allowed


def test_views_are_made_of_harmless_functions(probe):
    judge = probe.judge
    for sql in (
        "create view shop_app.v as select a, now() as at from shop_app.t",
        "create view shop_app.v as select sum(a), json_agg(b), array_agg(b) from shop_app.t",
        "create view shop_app.v (x) as select generate_series(1, a) from shop_app.t",
        "create materialized view shop_app.v as select row_number() over () from shop_app.t",
    ):
        assert judge.view(statement(sql)).reason is None, sql
    for sql in (
        "create view shop_app.v as select shop_app.f(a) from shop_app.t",
        "create view shop_app.v as select pg_read_file('/etc/passwd')",
        "create view shop_app.v as select query_to_xml('select 1', true, true, '')",
        "create materialized view shop_app.v as select a::shop_app.bad from shop_app.t",
        "create view shop_app.v as select * from shop_app.missing",
    ):
        assert not judge.view(statement(sql)).is_allowed, sql


def test_functions_of_extensions_count_as_the_targets_own(target):
    target.execute("create extension citext schema public", "create schema shop_app")
    with connect(target.endpoint(Side.TARGET), "test") as connection:
        judge = CodeJudge(connection, ["shop_app"])
        with judge.at(Place("date", [("a", "public.citext"), ("d", "date")])) as probe:
            assert probe.expression(node("a operator(public.=) 'x'::public.citext")).is_allowed
            assert probe.expression(node("d > '2020-01-01'::date")).is_allowed
            assert probe.index(statement("create index x on y (a public.citext_ops)")).is_allowed
