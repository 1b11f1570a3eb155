"""Code is found in every place of a statement where it may stand, and taken out of it."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture.definition import Column, Constraint, Index, TableDefinition
from pgrepl.ddl_capture.policy.code_places import CodePlace, remove_code
from pgrepl.ddl_capture.policy.expectation import find_absent, find_code, without
from pgrepl.syntax.parse import parse, to_sql


@pytest.mark.parametrize(
    ("sql", "kinds", "left"),
    [
        (
            (
                "create table t (a int default f() check (f(a)), b int generated always as (f())"
                " stored not null, constraint c check (f()), unique (a),"
                " exclude using gist (a with =))"
            ),
            ["default", "check", "generated column", "check", "exclusion constraint"],
            "CREATE TABLE t (a int, b int NOT NULL, UNIQUE (a))",
        ),
        (
            (
                "alter table t add a int default f(), add check (f()), alter b set default f(),"
                " alter c type text using f(), alter d type text, alter e set expression as (f()),"
                " alter g drop default"
            ),
            ["default", "default", "conversion", "conversion", "generated column", "check"],
            (
                "ALTER TABLE t ADD COLUMN a int, ALTER COLUMN b DROP DEFAULT,"
                " ALTER COLUMN c TYPE text USING NULL, ALTER COLUMN d TYPE text USING NULL,"
                " ALTER COLUMN e DROP EXPRESSION IF EXISTS, ALTER COLUMN g DROP DEFAULT"
            ),
        ),
        (
            "alter table t add a int default 1, alter a set default f()",
            ["default", "default"],
            "ALTER TABLE t ADD COLUMN a int, ALTER COLUMN a SET DEFAULT NULL",
        ),
        ("alter table t add check (f())", ["check"], None),
        ("create index i on t ((f(a))) where f(b)", ["index"], None),
        ("create index i on t (a my_ops)", ["index"], None),
        ("create index i on t (a)", [], "CREATE INDEX i ON t USING btree (a)"),
        ("create statistics s on (f(a)), b from t", ["statistics"], None),
        (
            "create domain d as int default f() not null check (f(value))",
            ["default", "check"],
            "CREATE DOMAIN d AS int NOT NULL",
        ),
        ("alter domain d add check (f(value))", ["check"], None),
        ("alter domain d set default f()", ["default"], "ALTER DOMAIN d DROP DEFAULT"),
        (
            "create type r as range (subtype = int, canonical = f, subtype_diff = g)",
            ["range function", "range function"],
            "CREATE TYPE r AS RANGE (subtype = int)",
        ),
        (
            "create schema s create table t (a int check (f(a)))",
            ["check"],
            "CREATE SCHEMA s CREATE TABLE t (a int)",
        ),
        ("create table t (a int) partition by range (f(a))", ["partition key"], "as it was"),
    ],
)
def test_code_is_found_and_taken_out(sql, kinds, left):
    (tree,) = parse(sql)
    before = to_sql(tree)
    found: list[CodePlace] = []

    def deny(place: CodePlace) -> bool:
        found.append(place)
        return False

    is_left = remove_code(tree, deny)
    assert [place.kind for place in found] == kinds
    if left is None:
        assert not is_left
    else:
        assert is_left
        assert to_sql(tree) == (before if left == "as it was" else left)


def test_allowed_code_stays():
    (tree,) = parse("alter table t add a int default f() check (f()), alter b type int using f()")
    before = to_sql(tree)
    assert remove_code(tree, lambda _: True)
    assert to_sql(tree) == before


SOURCE = TableDefinition(
    schema="app",
    name="t",
    kind="r",
    persistence="p",
    replica_identity="i",
    is_extension_member=False,
    partition_key=None,
    bound=None,
    root=("app", "t"),
    parents=(),
    columns=(
        Column("a", "integer", False, "f()", None, "", None),
        Column("b", "integer", False, None, "f(a)", "", None),
    ),
    constraints=(
        Constraint("c", "c", "CHECK (f(a))", None),
        Constraint("p", "p", "PRIMARY KEY (a)", None),
    ),
    unique_indexes=(
        Index("p", "CREATE UNIQUE INDEX p ON app.t USING btree (a)", False),
        Index("i", "CREATE UNIQUE INDEX i ON app.t USING btree (b)", True),
    ),
)


def test_what_is_absent_is_expected_to_be():
    keys = {item.key for item in find_code(SOURCE)}
    assert keys == {("default", "a"), ("generated column", "b"), ("check", "c"), ("index", "i")}
    for item in find_code(SOURCE):
        assert len(parse(item.statement)) == 1
    bare = without(SOURCE, keys)
    assert {item.key for item in find_absent(SOURCE, bare)} == keys
    assert list(find_code(bare)) == []
    assert bare.replica_identity == "f"
    assert [item.name for item in bare.constraints] == ["p"]
    assert without(SOURCE, set()) is SOURCE
