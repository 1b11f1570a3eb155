"""Any name is renamed to exactly what it is to be, and what cannot be read is refused as such."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgrepl.syntax.parse import (
    SqlSyntaxError,
    names_in,
    parse,
    parse_one,
    parse_relation,
    parse_type,
    print_type,
    quoted_constant,
    quoted_names,
    to_sql,
    walk,
)
from pgrepl.syntax.remap import ConfinedMap, RemapError, SchemaMap, remap, rename_tables
from tests.support.examples import examples

#: As PostgreSQL has them: no NUL, no halves of characters, and 63 bytes at most.
NAMES = st.one_of(
    st.sampled_from(
        ['"', '""', "\n", "%s", "%", "\\", "''", "a" * 63, "ä" * 31, "select", "$$", "a.b", "*"]
    ),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20
    ).filter(lambda name: len(name.encode()) < 64),
)
#: Statements that name a table and a type of a schema in different places.
STATEMENTS = [
    "create table {t} (a {m}, b int default nextval({s}::regclass))",
    "alter table {t} alter a type {m} using (a::text)::{m}",
    "alter table {t} add check (a <> {c}), alter b set default nextval({s})",
    "create view {t} as select x.a from {u} x where x.a = any (array[{c}]::{m}[])",
    "comment on table {t} is {c}",
    "drop table {t}, {u}",
    "create function {t}(a {m}) returns {m} language sql as {body}",
]


def relations(sql: str) -> set[tuple[str, str]]:
    found = {
        (part.schemaname, part.relname)
        for part in walk(parse_one(sql))
        if part.DESCRIPTOR.name == "RangeVar"
    }
    return {own for own in found if own[0]}


@examples(100)
@given(st.sampled_from(STATEMENTS), st.tuples(NAMES, NAMES, NAMES, NAMES), st.booleans())
def test_any_name_is_renamed_exactly_and_only_once(text, given_names, has_text):
    schema, target, table, kind = given_names
    assume(schema != target)
    table_name, type_name = quoted_names(schema, table), quoted_names(schema, kind)
    sql = text.format(
        t=table_name,
        u=table_name,
        m=type_name,
        s=quoted_constant(table_name),
        c="'x'",
        body=quoted_constant(f"select a from {table_name}"),
    )
    names = SchemaMap({schema: target})
    try:
        tree = parse_one(sql)
    except SqlSyntaxError:
        # PostgreSQL knows some types by names alone, and has limits of its own.
        assume(False)
    before = tree.SerializeToString()
    first = remap(tree, names, sql if has_text else None).sql
    assert tree.SerializeToString() == before
    has_relations = bool(relations(sql))
    assert relations(first) == ({(target, table)} if has_relations else set())
    for part in walk(parse_one(first)):
        if part.DESCRIPTOR.name == "TypeName" and len(part.names) == 2:
            assert part.names[0].string.sval in (target, "pg_catalog")
    # What has the names of the target keeps them.
    again = remap(parse_one(first), names, first if has_text else None).sql
    assert to_sql(parse_one(again)) == to_sql(parse_one(first))


@given(NAMES, NAMES, NAMES)
def test_relation_in_a_text_is_read_and_written_as_it_is(schema, table, target):
    assert parse_relation(quoted_names(schema, table)) == (schema, table)
    assert parse_relation(quoted_names(table)) == ("", table)
    sql = f"select nextval({quoted_constant(quoted_names(schema, table))})"
    renamed = remap(parse_one(sql), SchemaMap({schema: target})).sql
    (constant,) = (
        part.sval.sval
        for part in walk(parse_one(renamed))
        if part.DESCRIPTOR.name == "A_Const" and part.HasField("sval")
    )
    assert parse_relation(constant) == (target, table)


@given(NAMES, NAMES, NAMES, NAMES)
def test_table_is_renamed_exactly(schema, table, name, other):
    sql = f"insert into {quoted_names(schema, table)} select from {quoted_names(other)}"
    assert relations(rename_tables(sql, {(schema, table): name})) == {(schema, name)}


PIECES = st.sampled_from(
    [
        *("select ", "from ", "shop.", "t ", "(", ")", ",", ";", "'", '"', "::", "regtype ", "$$"),
        *("'shop.t'::regclass", "'int; drop table t'::regtype", "nextval('a union select 1')"),
        *("'(select 1) x'::regclass", "'int, shop.f()'::regtype", "set search_path = shop, 5"),
        *("create table shop.t (a shop.m)", "E'\\'", "U&'\\0041'", "--", "/*", "system_user "),
        *("comment on table shop.t is ", "alter sequence shop.s owned by shop.t.a", "''::regtype"),
        *("create function shop.f() returns int language sql as 'select 1'", "\\", "%", "a.b.c "),
    ]
)


@pytest.mark.parametrize("kind", [SchemaMap, ConfinedMap])
@given(pieces=st.lists(PIECES | st.text(max_size=3), max_size=8))
def test_any_text_is_remapped_or_refused(kind, pieces):
    text = "".join(pieces)
    names = kind({"shop": "db_shop"}, {("shop", "citext"): "public"})
    with suppress(SqlSyntaxError):
        statements = parse(text)
        for statement in statements:
            with suppress(RemapError):
                renamed = remap(statement, names, text if len(statements) == 1 else None).sql
                parse_one(renamed)


@pytest.mark.parametrize(
    "constant",
    [
        "'int; drop table shop.t'::regtype",
        "'int, shop.f()'::regtype",
        "''::regtype",
        "'a union select 1'::regclass",
        "'shop.a, shop.b'::regclass",
        "'(select 1) x'::regclass",
        "'shop.a x'::regclass",
    ],
)
def test_constant_that_is_no_name_is_refused(constant):
    (statement,) = parse(f"select {constant}")
    with pytest.raises(RemapError):
        remap(statement, SchemaMap({"shop": "db_shop"}))


@pytest.mark.parametrize("text", ["shop.mood[]", "numeric(3,2)", "timestamp with time zone"])
def test_type_in_a_text_is_read(text):
    assert print_type(parse_type(text)).lower().replace(", ", ",") == text


@pytest.mark.parametrize("text", ["select 'a\0b'", "select '\ud800'"])
def test_character_that_no_text_of_a_server_has_is_refused(text):
    for read in (parse, lambda given: list(names_in(given))):
        with pytest.raises(SqlSyntaxError, match=r"NUL|Unicode"):
            read(text)


def test_capitals_beyond_ascii_stay_as_in_postgresql():
    assert list(names_in("select ÄRGER.Öl")) == [("Ärger", "Öl")]


@pytest.mark.parametrize("operand_count", [60, 190])
def test_expression_of_many_operators_is_remapped(operand_count):
    """As that of a column which is generated from all others."""
    sql = "alter table shop.t add check (" + " || ".join(["shop.f(a)"] * operand_count) + " > '')"
    (statement,) = parse(sql)
    for text in (sql, None):
        renamed = remap(statement, SchemaMap({"shop": "there"}), text).sql
        assert renamed.count("there") == operand_count + 1
        assert "shop" not in renamed


@pytest.mark.parametrize("operand_count", [1000, 100_000])
def test_expression_that_is_nested_too_deeply_is_refused(operand_count):
    """Whoever reads it would end with his stack: 50,000 operators were the end of the program."""
    with pytest.raises(SqlSyntaxError, match="nested too deeply"):
        parse("select " + "||".join(["a"] * operand_count))


def test_what_is_long_and_not_deep_is_read():
    parse(f"insert into t values {','.join(['(1,2)'] * 20_000)}")
    parse(f"select 1{';select 1' * 20_000}")
