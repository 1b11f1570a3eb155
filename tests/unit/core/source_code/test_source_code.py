"""What an expression calls, and what may be made of that."""

from __future__ import annotations

import pytest

from pgrepl.source_code.policy import (
    Called,
    Name,
    has_computed_sequence,
    is_constant,
    judge_called,
    judge_names,
    names_used,
)
from pgrepl.syntax.parse import parse


def node(sql: str):
    (statement,) = parse(f"select {sql}")
    return statement.select_stmt.target_list[0].res_target.val


def called(name: str, **facts: bool) -> Called:
    flags = dict.fromkeys(("is_built_in", "is_member", "is_conversion", "is_foreign", "is_domain"))
    return Called(kind="function", name=name, **{**dict.fromkeys(flags, False), **facts})


def test_every_name_with_code_behind_it_is_found():
    tree = node(
        "app.f(a::app.t) operator(app.===) b and lower(c) = any (array['x']::app.u[])"
        " and d between 1 and 2 and e collate app.german like 'x'"
    )
    assert names_used(tree) == {
        Name("function", "app", "f"),
        Name("function", "pg_catalog", "lower"),
        Name("operator", "app", "==="),
        Name("operator", "pg_catalog", "="),
        Name("operator", "pg_catalog", "~~"),
        Name("type", "app", "t"),
        Name("type", "app", "u"),
        Name("collation", "app", "german"),
    }


def test_operator_classes_and_operators_of_exclusion_constraints_are_names():
    (index,) = parse("create index on t (a app.ops, b collate app.german)")
    assert Name("operator class", "app", "ops") in names_used(index)
    (alter,) = parse("alter table t add exclude using gist (a app.ops with operator(app.&&))")
    assert {Name("operator", "app", "&&"), Name("operator class", "app", "ops")} <= (
        names_used(alter)
    )


@pytest.mark.parametrize(
    ("sql", "is_it"),
    [
        ("1", True),
        ("'a'::text", True),
        ("'a'::character varying(5)", True),
        ("'red'::app.color", True),
        ("'x'::other.type", False),
        ("'app.t'::regclass", False),
        ("'app.t'::pg_catalog.regclass::text", False),
        ("now()", False),
        ("1 + 1", False),
        ("current_user", False),
    ],
)
def test_constants_need_nobodys_word(sql, is_it):
    assert is_constant(node(sql), ["app"]) is is_it


@pytest.mark.parametrize(
    ("sql", "is_it"),
    [
        ("nextval('app.s'::regclass)", False),
        ("nextval('app.s')", False),
        ("now()", False),
        ("nextval('app.s'::text)", True),
        ("nextval(('a' || 'b')::regclass)", True),
        ("1 + nextval(x)", True),
    ],
)
def test_sequence_must_stand_there_by_its_name(sql, is_it):
    assert has_computed_sequence(node(sql)) is is_it


def test_names_must_be_there_and_somebody_elses_than_the_sources():
    name = Name("function", "app", "f")
    assert judge_names([(name, True, True)]).is_allowed
    assert judge_names([(name, False, False)]).reason == (
        'function "f" does not exist on the target'
    )
    assert "neither PostgreSQL's own" in (judge_names([(name, True, False)]).reason or "")


def test_what_nothing_computes_may_call_what_is_harmless():
    harmless = [
        called("now", is_built_in=True),
        called("timestamptz_pl_interval", is_built_in=True, is_conversion=True),
        called("nextval", is_built_in=True),
        called("uuid_generate_v4", is_member=True),
    ]
    for item in harmless:
        assert judge_called([item], is_harmless_enough=True).is_allowed
        assert not judge_called([item], is_harmless_enough=False).is_allowed
    for item in (
        called("query_to_xml", is_built_in=True),
        called("now", is_member=True),
        called("f", is_foreign=True),
        called("now", is_built_in=True, is_domain=True),
    ):
        assert not judge_called([item], is_harmless_enough=True).is_allowed
