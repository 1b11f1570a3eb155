"""Which statement ran is told by the texts and the tag together, or not at all."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture.decode.command_tags import command_tag
from pgrepl.ddl_capture.decode.event import CapturedEvent
from pgrepl.ddl_capture.decode.statement import UnknownStatementError, find_statement
from pgrepl.syntax.parse import parse, to_sql


def event(tag: str, query: str = "", **fields) -> CapturedEvent:
    given = {"context": None, "bodies": (), "ordinal": None, **fields}
    return CapturedEvent(
        log_id=1,
        kind="end",
        tag=tag,
        xid=7,
        query=query,
        path=("public",),
        invoker="alice",
        extensions={},
        objects=(),
        dropped=(),
        rewritten=None,
        **given,
    )


def found(*arguments, **fields) -> str:
    return to_sql(find_statement(event(*arguments, **fields)).tree)


TWO = "insert into t values (1); create table a (); select 1; create table b ();"


def test_only_statement_needs_no_count():
    assert found("CREATE TABLE", "-- why\ncreate table a ();") == "CREATE TABLE a ()"


@pytest.mark.parametrize(("ordinal", "name"), [(1, "a"), (2, "b")])
def test_statement_among_others_is_found_by_its_count(ordinal, name):
    assert found("CREATE TABLE", TWO, ordinal=ordinal) == f"CREATE TABLE {name} ()"


@pytest.mark.parametrize(
    ("message", "ordinal", "name"),
    [
        ("savepoint s; create table a (); rollback to s; create table b ()", 1, "b"),
        ("begin; create table a (); rollback; create table b ()", 1, "b"),
        ("begin; create table a (); commit; begin; create table b (); rollback", 1, "a"),
        ("create table a (); begin; create table x (); rollback; create table b ()", 2, "b"),
    ],
)
def test_what_the_message_rolled_back_does_not_count(message, ordinal, name):
    assert found("CREATE TABLE", message, ordinal=ordinal) == f"CREATE TABLE {name} ()"


def test_statement_inside_a_function_is_the_innermost_one():
    context = (
        'SQL statement "create table "a" (x text default E\'"\n\')"\n'
        "PL/pgSQL function f() line 3 at EXECUTE\n"
        'SQL statement "select f()"\nPL/pgSQL function inline_code_block line 1 at PERFORM'
    )
    assert found("CREATE TABLE", "do $$ ... $$", context=context).startswith("CREATE TABLE a (x")


def test_loop_over_several_statements_starts_over_with_each_round():
    context = 'SQL statement "create table a (); alter table a add b int"\nPL/pgSQL function f()'
    tags = ["CREATE TABLE", "ALTER TABLE"] * 2
    texts = [found(tag, context=context, ordinal=n) for n, tag in enumerate(tags, start=1)]
    assert texts == ["CREATE TABLE a ()", "ALTER TABLE a ADD COLUMN b int"] * 2


def test_statement_of_an_sql_function_is_found_in_its_body():
    context = 'SQL function "f" statement 2\nSQL statement "select f()"\nPL/pgSQL function x'
    bodies = ("select 1; create table a ()", "select 2")
    assert found("CREATE TABLE", context=context, bodies=bodies) == "CREATE TABLE a ()"


@pytest.mark.parametrize(
    "given",
    [
        {"query": "select 1"},
        {"query": TWO},
        {"query": TWO, "ordinal": 3},
        {"query": "drop table a"},
        {"context": "PL/Perl function f"},
        {"context": 'SQL statement "create tabel a"\nPL/pgSQL function f()'},
        {"context": 'SQL function "f" statement 1', "bodies": ()},
        {
            "context": 'SQL function "f" statement 1',
            "bodies": ("create table a ()", "create table b ()"),
        },
    ],
)
def test_statement_that_is_not_certain_is_unknown(given):
    with pytest.raises(UnknownStatementError):
        find_statement(event("CREATE TABLE", given.pop("query", ""), **given))


@pytest.mark.parametrize(
    ("sql", "tag"),
    [
        ("create table a as select 1", "CREATE TABLE AS"),
        ("select 1 into a", "SELECT INTO"),
        ("create materialized view m as select 1", "CREATE MATERIALIZED VIEW"),
        ("alter table a rename b to c", "ALTER TABLE"),
        ("alter view a rename b to c", "ALTER VIEW"),
        ("alter type a rename attribute b to c", "ALTER TYPE"),
        ("alter table a rename constraint b to c", "ALTER TABLE"),
        ("alter index a rename to b", "ALTER INDEX"),
        ("alter sequence a set schema b", "ALTER SEQUENCE"),
        ("drop domain a", "DROP DOMAIN"),
        ("revoke all on a from b", "REVOKE"),
        ("create procedure p() language sql as ''", "CREATE PROCEDURE"),
        ("comment on table a is 'x'", "COMMENT"),
        ("comment on role a is 'x'", None),
        ("create role a", None),
        ("grant a to b", None),
        ("truncate a", None),
        ("explain analyze create table a as select 1", None),
        ("select 1", None),
        ("copy a from program 'x'", None),
        ("do 'begin end'", None),
    ],
)
def test_tag_is_the_one_that_postgresql_gives(sql, tag):
    (tree,) = parse(sql)
    assert command_tag(tree) == tag
