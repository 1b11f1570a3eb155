from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.config.naming import (
    NameClashError,
    SchemaTemplate,
    TablePattern,
    TableSelection,
    assign_target_schemas,
    default_owner,
    exact_pattern,
    is_system_schema,
)

names = st.text(min_size=1, max_size=20).filter(lambda name: "\0" not in name)
TEMPLATE = SchemaTemplate("{db}_{schema}")


def escape(name: str) -> str:
    return "".join("\\" + c if c in ".*\\" else c for c in name)


@given(names.filter(lambda name: not is_system_schema(name)), names)
def test_escaped_pattern_matches_exactly_its_table(schema, table):
    pattern = TablePattern(f"{escape(schema)}.{escape(table)}")
    assert pattern.matches(schema, table)
    assert not pattern.matches(schema + "x", table)
    assert not pattern.matches(schema, table + "x")
    assert pattern.schema == schema


@pytest.mark.parametrize(
    ("pattern", "schema", "table", "is_match"),
    [
        ("*.*", "public", "orders", True),
        ("public.*", "public", "orders", True),
        ("public.*", "publica", "orders", False),
        ("public.ord*", "public", "orders", True),
        ("public.ord*", "public", "border", False),
        ("*_log.*", "app_log", "line", True),
        (r"public.a\*b", "public", "a*b", True),
        (r"public.a\*b", "public", "axb", False),
        (r"public.a\.b", "public", "a.b", True),
        ("public.*", "public", "two\nlines", True),
        ("public.o[r]", "public", "or", False),
    ],
)
def test_star_is_the_only_wildcard(pattern, schema, table, is_match):
    assert TablePattern(pattern).matches(schema, table) is is_match


@pytest.mark.parametrize(
    "text", ["", "orders", "a.b.c", ".orders", "public.", "pub\\lic.x", "a.b\\"]
)
def test_pattern_without_exactly_one_dot_is_refused(text):
    with pytest.raises(ValueError, match="schema"):
        TablePattern(text)


def test_exclusion_wins_over_inclusion():
    selection = TableSelection.of(["*.*"], ["bi.*"])
    assert selection.matches("public", "orders")
    assert not selection.matches("bi", "orders")


@pytest.mark.parametrize("schema", ["pg_catalog", "pg_toast", "information_schema", "pgrepl"])
def test_schemas_of_the_system_and_of_pgrepl_are_never_selected(schema):
    assert not TableSelection.of(["*.*"]).matches(schema, "anything")


def test_two_schemas_with_one_name_are_refused():
    shop = ("shop", "shop", TEMPLATE, ["eu_x"])
    shop_eu = ("other", "shop_eu", TEMPLATE, ["x"])
    with pytest.raises(NameClashError, match='would both become "shop_eu_x"'):
        assign_target_schemas([shop, shop_eu])


def test_schemas_with_different_names_are_assigned():
    assigned = assign_target_schemas([("a", "shop", TEMPLATE, ["public", "crm"])])
    assert assigned == {("a", "public"): "shop_public", ("a", "crm"): "shop_crm"}


def test_63_bytes_are_the_limit_not_63_characters():
    assert assign_target_schemas([("a", "d", SchemaTemplate("{schema}"), ["x" * 63])])
    with pytest.raises(NameClashError, match="64 bytes, the limit is 63"):
        assign_target_schemas([("a", "d", SchemaTemplate("{schema}"), ["ü" * 32])])


@pytest.mark.parametrize("schema", ["replication", "public", "pg_shop", "information_schema"])
def test_reserved_schema_of_the_target_is_refused(schema):
    with pytest.raises(NameClashError, match="reserved"):
        assign_target_schemas([("a", "d", SchemaTemplate("{schema}"), [schema])])


@pytest.mark.parametrize("text", ["", "{", "{table}", "{schema!r}", "{schema:>5}", "{}", "{0}"])
def test_template_with_anything_but_the_three_placeholders_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        SchemaTemplate(text)


@pytest.mark.parametrize(
    ("include", "exclude", "schema", "expected"),
    [
        (["*.*"], [], "app", True),
        (["app.*"], [], "app", True),
        (["app.orders"], [], "app", True),
        (["app.*"], [], "bi", False),
        (["*.*"], ["bi.*"], "bi", False),
        (["*.*"], ["bi.x"], "bi", True),
        (["*.*"], [], "pg_temp", False),
        (["*.*"], [], "pgrepl", False),
    ],
)
def test_schema_may_hold_replicated_tables(include, exclude, schema, expected):
    assert TableSelection.of(include, exclude).may_match(schema) is expected


@given(names, names, names)
def test_exact_pattern_takes_in_one_table_and_no_other(schema, table, other):
    pattern = TablePattern(exact_pattern(f"s{schema}", table))
    assert pattern.matches(f"s{schema}", table)
    assert pattern.matches(f"s{schema}", other) is (other == table)


def test_role_of_a_source_with_a_long_name_fits_and_is_its_own():
    names = [f"{'s' * 80}{number}" for number in range(100)]
    roles = {default_owner(name) for name in names}
    assert len(roles) == len(names)
    assert {len(role) for role in roles} == {63}
