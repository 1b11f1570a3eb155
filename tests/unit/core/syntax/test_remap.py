"""Schemas in statements get the target's names, or the statement is refused."""

from __future__ import annotations

import pytest

from pgrepl.syntax.nodes import NAME_LISTS
from pgrepl.syntax.parse import SqlSyntaxError, names_in, parse, to_sql
from pgrepl.syntax.remap import RemapError, SchemaMap, remap

NAMES = SchemaMap(
    {"shop": "db_shop", "odd.one": "db_odd.one", "public": "db_public"},
    {("public", "citext"): "public", ("public", "hstore"): "ext"},
)


def remapped(sql: str, names: SchemaMap = NAMES) -> str:
    (statement,) = parse(sql)
    return remap(statement, names).sql


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE shop.t (a shop.mood)", "CREATE TABLE db_shop.t (a db_shop.mood)"),
        ("CREATE TABLE t (a int)", "CREATE TABLE t (a int)"),
        ('CREATE TABLE "odd.one"."T" ()', 'CREATE TABLE "db_odd.one"."T" ()'),
        (
            "CREATE TABLE shop.c () INHERITS (shop.p)",
            "CREATE TABLE db_shop.c () INHERITS (db_shop.p)",
        ),
        (
            "ALTER TABLE ONLY shop.p ATTACH PARTITION public.c DEFAULT",
            "ALTER TABLE ONLY db_shop.p ATTACH PARTITION db_public.c DEFAULT",
        ),
        (
            "ALTER TABLE shop.t ALTER COLUMN a SET DEFAULT nextval('shop.s'::regclass)",
            (
                "ALTER TABLE db_shop.t ALTER COLUMN a"
                """ SET DEFAULT nextval('"db_shop"."s"'::regclass)"""
            ),
        ),
        (
            "ALTER TABLE shop.t ALTER a SET DEFAULT nextval('shop.s')",
            """ALTER TABLE db_shop.t ALTER COLUMN a SET DEFAULT nextval('"db_shop"."s"')""",
        ),
        (
            "CREATE TABLE shop.t (a regclass DEFAULT 'shop.u')",
            """CREATE TABLE db_shop.t (a regclass DEFAULT '"db_shop"."u"')""",
        ),
        (
            "ALTER TABLE shop.t ALTER a SET DEFAULT 'shop.mood[]'::regtype",
            "ALTER TABLE db_shop.t ALTER COLUMN a SET DEFAULT 'db_shop.mood[]'::regtype",
        ),
        (
            "ALTER TABLE shop.t ALTER a SET DEFAULT 'shop'::regnamespace",
            "ALTER TABLE db_shop.t ALTER COLUMN a SET DEFAULT 'db_shop'::regnamespace",
        ),
        (
            "ALTER TABLE shop.t ADD FOREIGN KEY (a) REFERENCES public.u (b)",
            "ALTER TABLE db_shop.t ADD FOREIGN KEY (a) REFERENCES db_public.u (b)",
        ),
        (
            "ALTER TABLE shop.t ADD CHECK (a OPERATOR(shop.===) shop.f(b::shop.mood))",
            "ALTER TABLE db_shop.t ADD CHECK (a OPERATOR(db_shop.===) db_shop.f(b::db_shop.mood))",
        ),
        (
            "ALTER TABLE shop.t ADD EXCLUDE USING gist (a WITH OPERATOR(shop.&&))",
            "ALTER TABLE db_shop.t ADD EXCLUDE USING gist (a WITH db_shop.&&)",
        ),
        (
            "CREATE INDEX i ON shop.t (a COLLATE shop.de shop.ops)",
            "CREATE INDEX i ON db_shop.t USING btree (a COLLATE db_shop.de db_shop.ops)",
        ),
        (
            "ALTER TABLE shop.t ALTER a ADD GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME shop.s)",
            (
                "ALTER TABLE db_shop.t ALTER a"
                " ADD GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME db_shop.s )"
            ),
        ),
        (
            "ALTER SEQUENCE shop.s OWNED BY shop.t.a",
            "ALTER SEQUENCE db_shop.s OWNED BY db_shop.t.a",
        ),
        ("ALTER SEQUENCE shop.s OWNED BY shop.a", "ALTER SEQUENCE db_shop.s OWNED BY shop.a"),
        ("CREATE TYPE shop.m AS ENUM ('shop.x')", "CREATE TYPE db_shop.m AS ENUM ('shop.x')"),
        (
            "CREATE TYPE shop.r AS RANGE (subtype = int, multirange_type_name = shop.m)",
            "CREATE TYPE db_shop.r AS RANGE (subtype = int, multirange_type_name = db_shop.m)",
        ),
        (
            "CREATE DOMAIN shop.d AS public.citext CHECK (public.f(value))",
            "CREATE DOMAIN db_shop.d AS public.citext CHECK (db_public.f(value))",
        ),
        ("CREATE TABLE shop.t (a public.hstore)", "CREATE TABLE db_shop.t (a ext.hstore)"),
        (
            "COMMENT ON COLUMN shop.t.a IS 'of shop.t'",
            "COMMENT ON COLUMN db_shop.t.a IS 'of shop.t'",
        ),
        (
            "COMMENT ON CONSTRAINT shop ON shop.t IS 'x'",
            "COMMENT ON CONSTRAINT shop ON db_shop.t IS 'x'",
        ),
        (
            "COMMENT ON FUNCTION shop.f(shop.mood) IS 'x'",
            "COMMENT ON FUNCTION db_shop.f(db_shop.mood) IS 'x'",
        ),
        ("COMMENT ON SCHEMA shop IS 'x'", "COMMENT ON SCHEMA db_shop IS 'x'"),
        ("DROP TABLE shop.a, shop.b", "DROP TABLE db_shop.a, db_shop.b"),
        ("DROP FUNCTION shop.f(int)", "DROP FUNCTION db_shop.f(int)"),
        ("DROP SCHEMA shop", "DROP SCHEMA db_shop"),
        ("ALTER TABLE shop.a RENAME TO b", "ALTER TABLE db_shop.a RENAME TO b"),
        ("ALTER TABLE shop.a SET SCHEMA public", "ALTER TABLE db_shop.a SET SCHEMA db_public"),
        ("GRANT SELECT ON shop.a TO x", "GRANT select ON db_shop.a TO x"),
        (
            "CREATE VIEW shop.v AS SELECT shop.t.a FROM shop.t",
            "CREATE VIEW db_shop.v AS SELECT db_shop.t.a FROM db_shop.t",
        ),
        (
            "CREATE VIEW shop.v AS SELECT shop.a FROM public.t shop",
            "CREATE VIEW db_shop.v AS SELECT shop.a FROM db_public.t shop",
        ),
    ],
)
def test_schema_gets_the_name_of_the_target(sql, expected):
    assert remapped(sql) == expected


def test_body_of_an_sql_function_is_remapped_like_a_script():
    sql = remapped("CREATE FUNCTION shop.f() RETURNS int LANGUAGE sql AS 'select a from shop.t'")
    assert "FROM db_shop.t" in sql


def test_body_without_names_stays_as_it_was_written():
    sql = "CREATE FUNCTION shop.f() RETURNS int LANGUAGE sql AS 'select  1 -- one'"
    assert "select  1 -- one" in remapped(sql)


def test_standard_body_is_remapped():
    sql = "CREATE FUNCTION shop.f() RETURNS int BEGIN ATOMIC SELECT a FROM shop.t; END"
    assert "db_shop.t" in remapped(sql)


def test_search_path_of_a_function_keeps_the_place_of_extensions():
    sql = remapped(
        "CREATE FUNCTION shop.f() RETURNS int LANGUAGE sql SET search_path TO shop, public"
        " AS 'select 1'"
    )
    assert "SET search_path TO db_shop, db_public, public, ext" in sql


@pytest.mark.parametrize(
    "body",
    [
        "begin return shop.f(); end",
        "begin return nextval('shop.s'); end",
        'begin return "odd.one".f(); end',
    ],
)
def test_body_in_another_language_that_names_a_schema_is_reported(body):
    sql = f"CREATE FUNCTION shop.f() RETURNS int LANGUAGE plpgsql AS $x${body}$x$"
    (statement,) = parse(sql)
    result = remap(statement, NAMES)
    assert result.opaque == ("plpgsql body",)
    assert body in result.sql


@pytest.mark.parametrize("body", ["begin return 1; end", "begin -- shop.t\n return 1; end"])
def test_body_in_another_language_without_a_schema_is_not_reported(body):
    sql = f"CREATE FUNCTION shop.f() RETURNS int LANGUAGE plpgsql AS $x${body}$x$"
    (statement,) = parse(sql)
    assert remap(statement, NAMES).opaque == ()


def test_text_constant_is_data_and_is_reported():
    (statement,) = parse("ALTER TABLE shop.t ALTER a SET DEFAULT 'shop.t'")
    result = remap(statement, NAMES)
    assert result.sql.endswith("SET DEFAULT 'shop.t'")
    assert result.opaque == ("text constant",)


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE shop.t ALTER a SET DEFAULT 'shop.f(int)'::regprocedure",
        "CREATE FUNCTION shop.f() RETURNS int LANGUAGE sql AS 'nonsense'",
    ],
)
def test_statement_that_cannot_be_remapped_is_refused(sql):
    with pytest.raises(RemapError):
        remapped(sql)


def test_name_left_in_an_unknown_place_is_refused(monkeypatch):
    monkeypatch.delitem(NAME_LISTS, "TypeName")
    with pytest.raises(RemapError, match=r'"shop"\."mood"'):
        remapped("CREATE TABLE shop.t (a shop.mood)")


def test_remapping_leaves_the_tree_given_alone():
    (statement,) = parse("CREATE TABLE shop.t ()")
    remap(statement, NAMES)
    assert to_sql(statement) == "CREATE TABLE shop.t ()"


def test_text_that_is_no_sql_is_refused():
    with pytest.raises(SqlSyntaxError, match="syntax error"):
        parse("create tabel x")


def test_lexer_finds_names_as_postgresql_reads_them():
    found = set(names_in("""select Shop.T, "a.b"."c""d", 'shop.s', 1.5, x . y"""))
    assert found == {("shop", "t"), ("a.b", 'c"d'), ("shop", "s"), ("x", "y")}
