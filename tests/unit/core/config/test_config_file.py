from __future__ import annotations

import textwrap

import pytest

from pgrepl.config.file import find_config, load_config
from pgrepl.errors import ConfigError, UsageError

MINIMAL = """
[target]
dsn = "dbname=warehouse"

[sources.shop]
dsn = "host=db dbname=shop"
"""


@pytest.fixture
def load(tmp_path):
    def load_text(text):
        path = tmp_path / "pgrepl.toml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return load_config(path)

    return load_text


def test_two_dsns_are_enough_and_all_else_has_a_default(load):
    config = load(MINIMAL)
    shop = config.source("shop")
    assert (shop.slot, shop.origin, shop.schema.text) == (
        "pgrepl_shop",
        "pgrepl_shop",
        "{db}_{schema}",
    )
    assert shop.selection.matches("any", "table")
    assert (config.replay.shards, config.replay.batch_seconds) == (4, 30)
    assert (config.replay.consistency, config.replay.on_error) == ("shard", "park")
    assert (config.spark.master, dict(config.spark.conf)) == ("local[*]", {})


def test_every_option_is_read(load):
    config = load(
        """
        [target]
        dsn = "dbname=warehouse"
        [spark]
        master = "spark://head:7077"
        conf = { "spark.executor.memory" = "2g", spark.task.maxFailures = 3 }
        [replay]
        shards = 8
        batch_seconds = 5
        consistency = "batch"
        on_error = "stop"
        [sources.shop]
        dsn = "dbname=shop"
        slot = "shop_slot"
        schema = "{source}_{schema}"
        tables = ["public.*"]
        exclude = ["public.tmp*"]
        """
    )
    assert dict(config.spark.conf) == {"spark.executor.memory": "2g", "spark.task.maxFailures": "3"}
    assert (config.replay.shards, config.replay.consistency) == (8, "batch")
    shop = config.source("shop")
    assert shop.slot == "shop_slot"
    assert shop.selection.matches("public", "orders")
    assert not shop.selection.matches("public", "tmp_1")


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("[sources.a]\ndsn = 'dbname=a'", "target", "section [target] is missing"),
        ("[target]", "target.dsn", "is missing"),
        ("[target]\ndsn = 5", "target.dsn", "must be a text in quotes, not a number"),
        ("[target]\ndsn = ' '", "target.dsn", "must not be empty"),
        ("[target]\ndsn = 'hostt=1'", "target.dsn", 'invalid connection option "hostt"'),
        ("target = 1", "target", "must be a section"),
        ("[target]\ndsn = 'dbname=w'\ndns = 'x'", "target.dns", 'did you mean "dsn"?'),
        (MINIMAL + "[replay]\nshards = 0", "replay.shards", "between 1 and 64, not 0"),
        (MINIMAL + "[replay]\nshards = 65", "replay.shards", "between 1 and 64, not 65"),
        (MINIMAL + "[replay]\nshards = true", "replay.shards", "must be a whole number"),
        (MINIMAL + "[replay]\nshards = 1.5", "replay.shards", "must be a whole number"),
        (MINIMAL + "[replay]\nbatch_seconds = '30'", "replay.batch_seconds", "whole number"),
        (MINIMAL + "[replay]\nconsistency = 'x'", "replay.consistency", '"shard" or "batch"'),
        (MINIMAL + "[replay]\non_error = 1", "replay.on_error", '"park" or "stop"'),
        (MINIMAL + "[spark]\nconf = { a = 1 }", "spark.conf.a", 'begin with "spark."'),
        (MINIMAL + "[spark]\nconf = { 'spark.master' = 'x' }", "spark.conf", "spark.master"),
        (MINIMAL + "[spark]\nconf = [1]", "spark.conf", "must be a table"),
        (MINIMAL + "[relpay]", "relpay", 'did you mean "replay"?'),
        (MINIMAL + "tables = 'public.*'", "sources.shop.tables", "must be a list"),
        (MINIMAL + "tables = ['orders']", "sources.shop.tables", '"schema.table"'),
        (MINIMAL + "tables = []", "sources.shop.tables", "must not be empty"),
        (MINIMAL + "tables = ['pg_catalog.*']", "sources.shop.tables", "never replicated"),
        (MINIMAL + 'tables = ["a\\u0000.b"]', "sources.shop.tables", "NUL"),
        (MINIMAL + 'schema = "{schema}\\u0000"', "sources.shop.schema", "NUL"),
        ("[target]\ndsn = 'dbname=w'", "sources", "there is none"),
        (
            MINIMAL + "[spark]\nconf = { 'spark.a.b' = '1', spark = { 'a.b' = '2' } }",
            "spark.conf.spark.a.b",
            "is set twice",
        ),
        (
            MINIMAL + "tables = ['eu_x.*']\n[sources.b]\ndsn = 'dbname=shop_eu'\ntables = ['x.*']",
            "sources.b.schema",
            'schema "x" would become "shop_eu_x"',
        ),
        (MINIMAL + "slot = 'My-Slot'", "sources.shop.slot", "cannot be a slot"),
        (MINIMAL + "schema = '{table}'", "sources.shop.schema", "none of {source}"),
        (MINIMAL + "schema = 'all'", "sources.shop.schema", "lacks {schema}"),
        (MINIMAL + "[sources.Shop]\ndsn = 'dbname=x'", "sources.Shop", "lower-case letter"),
        (MINIMAL + "[sources.b]\ndsn = 'dbname=b'\nslot = 'pgrepl_shop'", "sources.b.slot", "too"),
        (MINIMAL + "[sources.b]\ndsn = 'host=c dbname=shop'", "sources.b.schema", "same target"),
        (MINIMAL + f"schema = '{'x' * 63}_{{schema}}'", "sources.shop.schema", "limit is 63"),
        (MINIMAL + f"tables = ['{'x' * 60}.*']", "sources.shop.schema", "limit is 63"),
        (MINIMAL + "schema = 'pg_{schema}'", "sources.shop.schema", "reserved"),
        (
            MINIMAL + "schema = 'replication'\ntables = ['public.*']",
            "sources.shop.schema",
            "reserved",
        ),
    ],
)
def test_mistake_is_refused_with_file_key_and_reason(load, tmp_path, text, key, reason):
    with pytest.raises(ConfigError) as caught:
        load(text)
    message = caught.value.message
    assert message.startswith(str(tmp_path / "pgrepl.toml"))
    assert key in message
    assert reason in message


def test_kinds_of_ddl_are_read_once_each(load):
    config = load(MINIMAL + '\n[ddl]\ninclude = ["views", "grants", "views"]\n')
    assert config.ddl.include == ("views", "grants")
    assert load(MINIMAL).ddl.include == ()


def test_tables_are_copied_again_after_ddl_unless_that_is_switched_off(load):
    assert load(MINIMAL).ddl.resync
    assert not load(MINIMAL + "\n[ddl]\nresync = false\n").ddl.resync


@pytest.mark.parametrize("value", ['["tables"]', '"views"', "[1]", "[[]]"])
def test_kind_of_ddl_that_is_none_is_refused(load, value):
    with pytest.raises(ConfigError, match=r"ddl\.include: must be a list of some of"):
        load(MINIMAL + f"\n[ddl]\ninclude = {value}\n")


def test_all_mistakes_are_named_at_once(load):
    with pytest.raises(ConfigError) as caught:
        load("[target]\ndns = 'x'\n[replay]\nshards = 0\n[sources.shop]\nslot = '-'")
    message = caught.value.message
    keys = ["target.dsn", "target.dns", "replay.shards", "sources.shop.dsn", "sources.shop.slot"]
    assert all(key in message for key in keys)
    assert "5 mistakes" in message


def test_value_that_may_be_a_secret_is_not_quoted(load):
    with pytest.raises(ConfigError) as caught:
        load("[target]\ndsn = 's3cr3t dbname=w'")
    assert "s3cr3t" not in caught.value.message


def test_sources_of_one_name_but_other_schemas_do_not_clash(load):
    config = load(
        """
        [target]
        dsn = "dbname=w"
        [sources.a]
        dsn = "host=a dbname=shop"
        tables = ["crm.*"]
        [sources.b]
        dsn = "host=b dbname=shop"
        tables = ["sales.*"]
        """
    )
    assert set(config.sources) == {"a", "b"}


def test_template_without_schema_is_fine_for_one_schema(load):
    config = load(MINIMAL + "schema = 'shop'\ntables = ['public.*']")
    assert config.source("shop").schema.text == "shop"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[target", "not TOML"),
        (b"dsn = no quotes", "not TOML"),
        (b"\xff\xfe", "not UTF-8"),
        (b"a = " + b"[" * 3000, "monstrous"),
        (b"a = " + b"1" * 5000, "monstrous"),
    ],
    ids=["section", "quotes", "encoding", "depth", "digits"],
)
def test_file_that_is_no_toml_is_refused(tmp_path, content, reason):
    path = tmp_path / "pgrepl.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        load_config(path)


def test_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*: it is not a file"):
        load_config(tmp_path)


def test_unknown_source_is_a_usage_error_that_names_the_known_ones(load):
    with pytest.raises(UsageError, match='no source "shp"') as caught:
        load(MINIMAL).source("shp")
    assert caught.value.hint == "Sources there: shop."


def test_places_are_looked_up_in_order(tmp_path, monkeypatch):
    places = [tmp_path / "given.toml"]
    places += [tmp_path / folder / "pgrepl.toml" for folder in ("cwd", "home/.config/pgrepl")]
    places += [tmp_path / "etc/pgrepl/pgrepl.toml"]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()

    def find(given):
        return find_config(given, home=str(tmp_path / "home"), etc=tmp_path / "etc").absolute()

    monkeypatch.chdir(tmp_path / "cwd")

    assert find(places[0]) == places[0]
    for place, following in zip(places[1:], [*places[2:], None], strict=True):
        assert find(None) == place
        place.unlink()
        if following is None:
            with pytest.raises(ConfigError, match=r"no pgrepl\.toml found"):
                find(None)


def test_file_given_must_exist_even_when_others_do(tmp_path):
    (tmp_path / "pgrepl.toml").touch()
    with pytest.raises(ConfigError, match=r"missing\.toml does not exist"):
        find_config(tmp_path / "missing.toml", home=str(tmp_path))
