"""Rules as the file gives them, and what they say of columns."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from pgrepl.catalog.rule_facts import ColumnFacts, judge_column
from pgrepl.config.file import load_config
from pgrepl.config.rules import Mask, Rules, changed_tables
from pgrepl.errors import ConfigError
from tests.support.running.ruled import SALT, rule

HEAD = '[target]\ndsn = "dbname=t"\n[sources.shop]\ndsn = "dbname=s"\n'


def load(tmp_path, text):
    path = tmp_path / "pgrepl.toml"
    path.write_text(HEAD + text, encoding="utf-8")
    return load_config(path).sources["shop"].rules


def _named(*tables, name="customers"):
    listed = ", ".join(f'"{table}"' for table in tables)
    return f'[[sources.shop.rules]]\ntables = [{listed}]\ntable = "{name}"\n'


def test_file_gives_names_of_tables(tmp_path):
    rules = load(
        tmp_path, _named("app.a") + _named(r"app.a\\.\\*", name="b") + _named("app.c", name="c")
    )
    assert rules.table_names == {("app", "a"): "customers", ("app", "a.*"): "b"}
    assert (rules.target_table("app", "a"), rules.target_table("app", "z")) == ("customers", "z")
    # Nothing is masked by it, and no other table is meant.
    assert not rules.has_effects
    assert not rules.is_named("app", "a")
    assert rules.document() == []


def test_file_gives_masks_by_table_and_column(tmp_path):
    rules = load(
        tmp_path,
        '[[sources.shop.rules]]\ntables = ["app.p*"]\nnull = ["a"]\nhash = ["b"]\n'
        'constant = { c = "x", d = 1, e = true }\n'
        '[[sources.shop.rules]]\ntables = ["app.people"]\nnull = ["b", "z"]\n',
    )
    masks = rules.masks_of("app", "people")
    described = {name: (mask.kind, mask.text) for name, mask in masks.items()}
    assert described == {
        "a": ("null", ""),
        # The first rule decides.
        "b": ("hash", ""),
        "c": ("constant", "x"),
        "d": ("constant", "1"),
        "e": ("constant", "true"),
        "z": ("null", ""),
    }
    assert rules.masks_of("app", "q") == {}
    assert rules.has_effects
    assert not Rules().has_effects


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('[[sources.shop.rules]]\nnull = ["a"]\n', "a rule is for some tables"),
        ('[[sources.shop.rules]]\ntables = ["a.b"]\nnul = ["a"]\n', 'did you mean "null"'),
        (_named("app.kna*"), "is the name of one table"),
        (_named("app.a", "app.b"), "is the name of one table"),
        (_named("app.a", name="x" * 64), "64 bytes, the limit is 63"),
        (_named("app.a", name="pgrepl_x"), "no table of a source can be called"),
        (_named("app.a") + _named("app.b"), 'app.b and app.a would both be called "customers"'),
        ('tables = ["app.customers", "app.a"]\n' + _named("app.a"), "both be called"),
        ("trust_code = true\n" + _named("app.a"), "not with trust_code"),
        ('rules = "x"\n', "must be written as sections [[sources.shop.rules]]"),
        (
            '[[sources.shop.rules]]\ntables = ["a.b"]\nomit = ["a"]\nhash = ["a"]\n',
            'column "a" has two masks',
        ),
        (
            '[[sources.shop.rules]]\ntables = ["a.b"]\nsalt_env = "a b"\n',
            "is no name of a variable",
        ),
        (
            'kind = "files"\npath = "/x"\n[[sources.shop.rules]]\ntables = ["a.b"]\n',
            'are of kind "postgres"',
        ),
    ],
)
def test_mistakes_are_named(tmp_path, text, mistake):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert mistake in str(caught.value)


def test_salt_is_read_late_and_never_shown(monkeypatch):
    rules = Rules((rule("a.b", hash=("x",)),))
    monkeypatch.delenv("PGREPL_SALT", raising=False)
    assert rules.masks_of("a", "b")
    with pytest.raises(ConfigError, match="PGREPL_SALT is not in the environment"):
        rules.resolved_masks("a", "b")
    monkeypatch.setenv("PGREPL_SALT", "short")
    with pytest.raises(ConfigError, match="too short"):
        rules.salts()
    monkeypatch.setenv("PGREPL_SALT", SALT)
    (mask,) = rules.resolved_masks("a", "b").values()
    assert pickle.loads(pickle.dumps(mask)).salt.text == SALT
    shown = f"{mask!r} {rules!r} {rules.salts()!r} {rules.document()} {mask.description}"
    assert SALT not in shown


def test_omitted_columns_are_told_apart_from_masked_ones():
    rules = Rules((rule("a.b", null=("x",)), rule("a.*", omit=("x", "y"), null=("z",))))
    assert rules.omitted("a", "b") == {"y"}
    assert rules.omitted("a", "c") == {"x", "y"}
    assert rules.omitted("b", "c") == Rules((rule("a.b", null=("x",)),)).omitted("a", "b") == set()
    assert changed_tables(rules.document(), (), [("a", "b"), ("b", "c")]) == [("a", "b")]


def test_schemas_have_the_names_that_rules_give_them(tmp_path):
    path = tmp_path / "pgrepl.toml"
    text = HEAD + (
        '[[sources.shop.rules]]\ntables = ["crm.*", "old_*.*"]\nschema = "c_{schema}"\n'
        '[[sources.shop.rules]]\ntables = ["a.b"]\n'
    )
    path.write_text(text, encoding="utf-8")
    source = load_config(path).sources["shop"]
    assert not source.rules.has_effects
    assert source.rules.is_named("a", "b")
    # Where its tables are says nothing of whether they may come as they are.
    assert not source.rules.is_named("crm", "b")
    named = [
        source.schema.target_schema(source="shop", db="s", schema=schema)
        for schema in ("crm", "old_x", "public")
    ]
    assert named == ["c_crm", "c_old_x", "s_public"]


@pytest.mark.parametrize(
    ("rule_text", "problem"),
    [
        ('tables = ["a.b"]\nschema = "x"', "is for whole schemas"),
        ('tables = ["a.*"]\nschema = "{x}"', "is none of"),
        ('tables = ["a.*", "b.*"]\nschema = "x"', "would both become"),
        ('tables = ["a.*"]\nschema = "replication"', "reserved on the target"),
    ],
)
def test_names_of_schemas_that_cannot_be_are_refused(tmp_path, rule_text, problem):
    path = tmp_path / "pgrepl.toml"
    text = f'{HEAD}tables = ["a.*", "b.*"]\n[[sources.shop.rules]]\n{rule_text}\n'
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=problem):
        load_config(path)


def test_only_tables_with_other_masks_have_changed(monkeypatch):
    monkeypatch.setenv("PGREPL_SALT", SALT)
    before = Rules((rule("a.b", hash=("x",)), rule("a.c", null=("y",)))).document()
    monkeypatch.setenv("PGREPL_SALT", f"{SALT}2")
    after = Rules((rule("a.*", hash=("x",)), rule("a.c", null=("y",)))).document()
    tables = [("a", "b"), ("a", "c"), ("z", "z")]
    assert changed_tables(before, after, tables) == [("a", "b"), ("a", "c")]
    assert changed_tables((), after, tables) == [("a", "b"), ("a", "c")]
    assert changed_tables(after, list(after), tables) == []


def test_first_condition_decides_and_another_one_is_a_change(tmp_path):
    rules = load(
        tmp_path,
        '[[sources.shop.rules]]\ntables = ["a.*"]\nnull = ["x"]\n'
        '[[sources.shop.rules]]\ntables = ["a.b"]\nwhere = "id = 1"\n'
        '[[sources.shop.rules]]\ntables = ["a.*"]\nwhere = "id = 2"\n',
    )
    assert rules.has_effects
    assert (rules.where("a", "b"), rules.where("a", "c")) == ("id = 1", "id = 2")
    assert not rules.is_filtered("b", "b")
    only_masks = Rules((rule("a.*", null=("x",)),)).document()
    tables = [("a", "b"), ("b", "b")]
    assert changed_tables(rules.document(), only_masks, tables) == [("a", "b")]
    assert changed_tables(rules.document(), rules.document(), tables) == []
    assert "where" not in only_masks[0]


PLAIN = ColumnFacts(
    schema="a",
    table="b",
    name="x",
    type="text",
    type_kind="b",
    type_name="text",
    type_modifier=-1,
    is_not_null=False,
    is_generated=False,
    is_partition_key=False,
    constraints=(),
    referenced_by=(),
    unique_indexes=(),
    generated_from_it=(),
)
NULL, CONSTANT, HASH, OMIT = Mask("null"), Mask("constant", "k"), Mask("hash"), Mask("omit")


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({}, []),
        ({"unique_indexes": ["kb_pkey"]}, [NULL, CONSTANT, HASH, OMIT]),
        ({"constraints": ["pb_pkey"]}, [NULL, CONSTANT, HASH, OMIT]),
        ({"is_partition_key": True}, [NULL, CONSTANT, HASH, OMIT]),
        ({"is_generated": True}, [NULL, CONSTANT, HASH]),
        ({"generated_from_it": ["g"]}, [NULL, CONSTANT, HASH, OMIT]),
        ({"type_kind": "d"}, [NULL, CONSTANT, HASH]),
        ({"constraints": ["cb_check"]}, [NULL, CONSTANT, HASH]),
        ({"unique_indexes": ["eb_lower"]}, [NULL, CONSTANT, HASH]),
        ({"referenced_by": ["fk"]}, [NULL, CONSTANT, HASH]),
        ({"is_not_null": True}, [NULL]),
        ({"constraints": ["ffk"]}, [CONSTANT, HASH]),
        ({"constraints": ["ub_x_key"], "unique_indexes": ["ub_x_key"]}, [CONSTANT]),
        ({"type_name": "int4", "type": "integer"}, [HASH]),
        ({"type_name": "varchar", "type_modifier": 68}, []),
        ({"type_name": "varchar", "type_modifier": 67}, [HASH]),
        ({"type_name": "bytea"}, [CONSTANT, HASH]),
        ({"is_typed": True}, [OMIT]),
    ],
)
def test_masks_are_refused_where_they_cannot_hold(change, refused):
    facts = replace(PLAIN, **change)
    found = [mask for mask in (NULL, CONSTANT, HASH, OMIT) if list(judge_column(mask, facts))]
    assert found == refused
