"""What is made of a statement before it runs on the target."""

from __future__ import annotations

import pytest
from psycopg import errors

from pgrepl.ddl_capture.apply.statement.adapt import split_sequence
from pgrepl.ddl_capture.policy.missing_objects import is_needless
from pgrepl.syntax.parse import parse_one, to_sql


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
