"""DDL after a copy, with what the source had before and no table used."""

from __future__ import annotations

import re

import pytest

from pgrepl.ddl_capture import Applier, decide, install
from pgrepl.errors import DdlStopped
from tests.support.running.backlog import control
from tests.support.running.pipeline import Pipeline

SETUP = """
create schema app; create schema elsewhere;
create table app.a (id int primary key); insert into app.a values (1), (2);
create type app.mood as enum ('good', 'bad');
create domain app.short as varchar(5) check (length(value) > 1);
create type app.pair as (one app.mood, two app.short[]);
create domain app.pairs as app.pair[];
create type app.span as range (subtype = numeric);
create collation app.german (provider = icu, locale = 'de');
create sequence app.numbers start 100 increment 10;
comment on type app.mood is 'how it is';
create function app.is_fine(text) returns boolean immutable language sql as 'select $1 <> $$bad$$';
create domain app.judged as text check (app.is_fine(value));
create type app.of_judged as (j app.judged);
create type elsewhere.far as enum ('away');
create type app.of_far as (f elsewhere.far);
"""


@pytest.fixture
def pipeline(source, target) -> Pipeline:
    source.execute(SETUP)
    made = Pipeline(source, target)
    made.ddl = Applier(made.config)
    install(made.config.sources[source.name])
    made.copy()
    return made


@pytest.mark.parametrize(
    "column",
    [
        "app.mood default 'bad'",
        "app.mood[]",
        "app.short default 'ab'",
        "app.pair",
        "app.pairs",
        "app.span",
        "text collate app.german",
        "int default nextval('app.numbers')",
    ],
)
def test_what_no_table_used_at_the_copy_is_there_when_ddl_uses_it(pipeline, column):
    pipeline.source.execute(f"create table app.b (id int primary key, c {column})")
    pipeline.apply()
    assert pipeline.differences("app") == []
    pipeline.source.execute("comment on type app.mood is null", "drop table app.b")
    pipeline.apply()


def test_sequence_that_no_table_used_has_the_sources_properties(pipeline):
    found = "select seqstart, seqincrement from pg_sequence where seqrelid = '{}.numbers'::regclass"
    assert pipeline.target.rows(found.format(pipeline.schema("app"))) == [(100, 10)]


def test_what_needs_more_than_a_copy_brings_is_left_out_by_name(pipeline):
    left_out = {name for (name,) in pipeline.target.rows("select name from replication.left_out")}
    assert {"app.judged", "app.of_judged", "app.of_far", "app.is_fine(text)"} <= left_out
    assert {"app.mood", "app.short", "app.pair", "app.span"}.isdisjoint(left_out)


def test_code_that_is_missing_stops_nothing(pipeline):
    pipeline.source.execute(
        "alter table app.a add column c text check (app.is_fine(c))",
        "alter table app.a add column d boolean, alter d set default app.is_fine('x')",
        "insert into app.a values (3, 'x')",
    )
    pipeline.apply()
    assert pipeline.target.rows(f"select id, c, d from {pipeline.schema('app')}.a order by 1") == [
        (1, None, None),
        (2, None, None),
        (3, "x", True),
    ]


def test_ddl_that_needs_what_is_missing_stops_and_says_what_to_make(pipeline):
    pipeline.ddl_on_error = "stop"
    pipeline.source.execute("alter table app.a add column c app.judged")
    pipeline.receive()
    error = pipeline.replay().error
    assert isinstance(error, DdlStopped)
    assert re.search("judged.* does not exist", error.message)
    assert error.hint is not None
    assert f"run pgrepl ddl retry {pipeline.source.name}" in error.hint
    with control(pipeline) as connection:
        decide(connection, pipeline.source.name, "skip")
    assert pipeline.replay().error is None
