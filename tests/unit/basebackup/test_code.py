"""A dump without what the target refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.basebackup.schema.code.expressions import Key
from pgrepl.basebackup.schema.code.without_code import Reduced, without_code
from pgrepl.basebackup.schema.dump import Dump
from pgrepl.basebackup.schema.errors import CodeNeededError, UnknownStatementError
from pgrepl.basebackup.schema.source_objects import SourceObjects
from pgrepl.basebackup.schema.views import Views
from pgrepl.catalog.tables import SourceTable
from pgrepl.syntax.parse import parse, to_sql

NOTHING = SourceObjects(tables=[], other_tables=[], needed=[], views=Views(), members=[], unseen=[])


BASE_TYPE = "create type a.b (input = a.i, output = a.o); create domain a.d as a.b;"
PARTED = "create table a.t (x int) partition by range (x); create table a.c (x int);"


def table(name: str) -> SourceTable:
    return SourceTable(1, "a", name, "a", name, False, False, 0, ["x"], True, "")


def reduced(before: str, after: str = "", *refused: Key) -> Reduced:
    objects = replace(NOTHING, tables=[table("t"), table("c")])
    return without_code(Dump(parse(before), parse(after)), objects, dict.fromkeys(refused, "why"))


def statements(result: Reduced) -> list[str]:
    return [to_sql(tree) for tree in (*result.dump.before_data, *result.dump.after_data)]


def test_generated_column_becomes_a_plain_one_and_the_rest_goes():
    result = reduced(
        "create table a.t (x int default a.f(1) not null, y int generated always as (a.f(x))"
        " stored, z int default 7, constraint c check (a.f(x) > 0), constraint d check (x > 0));"
        " comment on constraint c on a.t is 'gone'; comment on constraint d on a.t is 'stays'",
        "create index i on a.t (a.f(x)); create index j on a.t (x)",
        ("default", "a", "t", "x"),
        ("generated column", "a", "t", "y"),
        ("check", "a", "t", "c"),
        ("index", "a", "t", "i"),
    )
    assert statements(result) == [
        "CREATE TABLE a.t (x int NOT NULL, y int, z int DEFAULT 7, CONSTRAINT d CHECK (x > 0))",
        "COMMENT ON CONSTRAINT d ON a.t IS 'stays'",
        "CREATE INDEX j ON a.t USING btree (x)",
    ]
    assert {(item.kind, item.name, item.definition) for item in result.skipped} == {
        ("default", "x", "a.f(1)"),
        ("generated column", "y", "a.f(x)"),
        ("check", "c", "a.f(x) > 0"),
        ("index", "i", "CREATE INDEX i ON a.t USING btree (a.f(x))"),
    }


def test_what_one_of_a_family_may_not_have_none_has():
    result = reduced(
        "create table a.t (x int, y int generated always as (x + 1) stored);"
        " create table a.c (x int, y int generated always as (a.f(x)) stored);"
        " alter table only a.t attach partition a.c for values from (1) to (2)",
        "",
        ("generated column", "a", "c", "y"),
    )
    assert statements(result)[:2] == [
        "CREATE TABLE a.t (x int, y int)",
        "CREATE TABLE a.c (x int, y int)",
    ]


def test_functions_and_their_kin_are_named_and_not_made():
    result = reduced(
        "create function a.f(int) returns int language sql as 'select 1';"
        " create operator a.=== (leftarg = int, rightarg = int, function = a.f);"
        " create aggregate a.g (int) (sfunc = int4pl, stype = int);"
        " create type a.shell"
    )
    assert statements(result) == []
    assert {(item.kind, item.name) for item in result.left_out} == {
        ("function", "a.f(int4)"),
        ("function", "a.g(int4)"),
        ("operator", "a.===(int4, int4)"),
    }


@pytest.mark.parametrize(
    ("before", "refused", "message"),
    [
        (
            BASE_TYPE + "create table a.t (x a.d[])",
            (),
            r"column x of a\.t is of type a\.d, which needs code of the source",
        ),
        (
            "create table a.t (x int) partition by range (a.f(x))",
            (("partition key", "a", "t", ""),),
            r"the partition key of a\.t cannot be computed on the target: why",
        ),
        (
            PARTED + "alter table only a.t attach partition a.c for values from (a.f()) to (2)",
            (),
            r"the bounds of a partition of a\.t are computed",
        ),
    ],
)
def test_table_that_is_nothing_without_code_is_an_error(before, refused, message):
    with pytest.raises(CodeNeededError, match=message):
        reduced(before, "", *refused)


def test_base_type_that_no_table_uses_goes_without_a_word_of_error():
    result = reduced(
        "create type a.b (input = a.i, output = a.o); create type a.pair as (one a.b);"
        " create table a.t (x int)"
    )
    assert statements(result) == ["CREATE TABLE a.t (x int)"]
    assert [(item.kind, item.table_name) for item in result.skipped] == [("type", "pair")]


def test_foreign_key_goes_with_the_only_index_that_it_can_refer_to():
    index = "create unique index i on a.t (x a.ops);"
    key = "alter table only a.c add constraint k foreign key (x) references a.t (x)"
    gone = reduced("", index + key, ("index", "a", "t", "i"))
    assert {item.kind for item in gone.skipped} == {"index", "foreign key"}
    other = "alter table only a.t add constraint p primary key (x);"
    kept = reduced("", index + other + key, ("index", "a", "t", "i"))
    assert {item.kind for item in kept.skipped} == {"index"}


@pytest.mark.parametrize(
    "forged",
    [
        "alter table a.t add column y xml default query_to_xml('select 1', true, true, '')",
        "alter table a.t alter x type int using a.f(x)",
        "alter table a.t alter x set statistics 5, add column y int default a.f(1)",
    ],
)
def test_alter_table_that_no_pg_dump_prints_is_an_error(forged):
    with pytest.raises(UnknownStatementError, match=r"ALTER TABLE of a\.t .* none that pg_dump"):
        reduced("create table a.t (x int)", forged)


def test_partition_made_with_computed_bounds_is_an_error():
    with pytest.raises(CodeNeededError, match=r"the bounds of a partition of a\.c are computed"):
        reduced("create table a.c partition of a.t for values in (a.f())")
