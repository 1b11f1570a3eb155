"""What is made of a statement before it runs on the target."""

from __future__ import annotations

import pytest
from psycopg import errors

from pgrepl.ddl_capture.apply.statement.adapt import rewrite_drop, split_sequence
from pgrepl.ddl_capture.apply.statement.subject import qualify
from pgrepl.ddl_capture.decode.event import CapturedEvent, DroppedObject, TouchedObject
from pgrepl.ddl_capture.policy.missing_objects import is_needless
from pgrepl.syntax.parse import parse_one, to_sql
from tests.support.ddl.definitions import table


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "create sequence s start 5 owned by app.t.id",
            ["CREATE SEQUENCE s START 5", "ALTER SEQUENCE s OWNED BY app.t.id"],
        ),
        ("create sequence s start 5", ["CREATE SEQUENCE s START 5"]),
        ("alter sequence s owned by t.id", ["ALTER SEQUENCE s OWNED BY t.id"]),
    ],
)
def test_sequence_is_made_before_it_is_tied_to_a_column(sql, expected):
    made = [to_sql(tree) for tree in split_sequence(parse_one(sql))]
    assert [" ".join(item.split()) for item in made] == expected


@pytest.mark.parametrize(
    ("sql", "error", "is_skipped"),
    [
        ("create domain d as base", errors.UndefinedObject(), True),
        ("create type c as (x base)", errors.UndefinedObject(), True),
        ("create domain d as base", errors.DuplicateObject(), False),
        ("create table t (x base)", errors.UndefinedObject(), False),
    ],
)
def test_only_types_are_skipped_for_what_they_need(sql, error, is_skipped):
    assert is_needless(parse_one(sql), error) == is_skipped


def test_all_that_a_role_owned_is_dropped_and_what_builds_on_others_first():
    dropped = [
        DroppedObject("schema", None, ("own",), "own", is_original=True),
        DroppedObject("collation", "app", ("app", "c"), "app.c", is_original=True),
        DroppedObject("table", "own", ("own", "t"), "own.t", is_original=True),
        DroppedObject("statistics object", "app", ("app", "st"), "app.st", is_original=True),
        DroppedObject("table", "other", ("other", "t"), "other.t", is_original=True),
    ]
    made = rewrite_drop(parse_one("drop owned by lord cascade"), dropped, {"own", "app"})
    assert [to_sql(tree) for tree in made] == [
        "DROP STATISTICS IF EXISTS app.st CASCADE",
        "DROP TABLE IF EXISTS own.t CASCADE",
        "DROP COLLATION IF EXISTS app.c CASCADE",
        "DROP SCHEMA IF EXISTS own CASCADE",
    ]


def test_statement_is_about_the_table_and_not_its_child_of_the_same_name():
    event = CapturedEvent(
        log_id=1,
        kind="end",
        tag="ALTER TABLE",
        xid=1,
        query="",
        context=None,
        bodies=(),
        ordinal=None,
        path=("app", "kin"),
        invoker="x",
        extensions={},
        objects=[TouchedObject("ALTER TABLE", "table", "app", "a", "app.a")],
        dropped=(),
        rewritten=None,
        tables=[table(), table("kin", parents=[["app", "a"]])],
    )
    tree = parse_one("alter table a rename x to y")
    qualify(tree, event)
    assert tree.rename_stmt.relation.schemaname == "app"
