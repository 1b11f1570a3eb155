"""The settings of a source that the receiver heeds."""

from __future__ import annotations

import json

import pytest

from pgrepl.config.file import load_config
from pgrepl.errors import ConfigError
from tests.support.program import run_pgrepl, write_config


@pytest.fixture
def load(tmp_path):
    def load_with(*lines: str):
        path = write_config(tmp_path / "pgrepl.toml", "dbname=w", {"a": "dbname=a"})
        with path.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines))
        return load_config(path).source("a")

    return load_with


def test_defaults_are_no_limit_and_marking(load):
    source = load()
    assert (source.max_spool, source.special_floats) == (None, "mark")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1kB", 1024),
        ("20GB", 20 << 30),
        ("3 MB", 3 << 20),
        ("1TB", 1 << 40),
    ],
)
def test_size_has_the_units_of_postgresql(load, text, size):
    assert load(f'max_spool = "{text}"').max_spool == size


@pytest.mark.parametrize("value", ['"20"', '"0GB"', '"20gb"', '"-1GB"', '"1.5GB"', '"GB"'])
def test_other_sizes_are_refused(load, value):
    with pytest.raises(ConfigError, match=r"sources\.a\.max_spool: must be a size"):
        load(f"max_spool = {value}")


def test_size_is_a_text(load):
    with pytest.raises(ConfigError, match=r"max_spool: must be a text"):
        load("max_spool = 5")


def test_code_of_a_source_is_trusted_only_when_its_section_says_so(load):
    assert load("").trust_code is False
    assert load("trust_code = true").trust_code is True
    with pytest.raises(ConfigError, match=r"trust_code: must be true or false"):
        load('trust_code = "yes"')


def test_source_is_a_postgresql_server_that_is_decoded_by_wal2json(load):
    source = load("")
    assert (source.kind, source.plugin) == ("postgres", "wal2json")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('kind = "mysql"', 'sources.a.kind: must be "postgres" or "kafka" or "files"'),
        ('kind = "kafka"', 'sources.a.bootstrap: is missing: kind is "kafka"'),
        ('bootstrap = "here:1"', 'sources.a.bootstrap: is of kind "kafka", not "postgres"'),
        ('librdkafka = { "group.id" = "x" }', "librdkafka.group.id: is pgrepl's own to set"),
        ('plugin = "decoderbufs"', 'sources.a.plugin: must be "wal2json" or "pgoutput"'),
        ("plugin = 2", 'sources.a.plugin: must be "wal2json" or "pgoutput"'),
    ],
)
def test_another_kind_or_plugin_is_refused(load, setting, said):
    with pytest.raises(ConfigError) as caught:
        load(setting)
    assert said in str(caught.value)


def test_special_floats_are_marked_or_exact(load):
    assert load('special_floats = "exact"').special_floats == "exact"
    with pytest.raises(ConfigError, match='"mark" or "exact"'):
        load('special_floats = "perfect"')


@pytest.mark.parametrize("size", ["7kB", "20GB", "1TB", "1025MB"])
def test_config_show_prints_what_config_reads(tmp_path, size):
    path = write_config(tmp_path / "pgrepl.toml", "dbname=w", {"a": "dbname=a"})
    with path.open("a", encoding="utf-8") as file:
        file.write(f'max_spool = "{size}"\n')
    done = run_pgrepl("config", "show", "--json", "--config", path)
    shown = json.loads(done.stdout)["sources"]["a"]
    assert (shown["max_spool"], shown["special_floats"]) == (size, "mark")


def test_slot_is_so_short_that_publications_can_be_named_after_it(load):
    pgoutput = 'plugin = "pgoutput"'
    assert len(load(pgoutput, f'slot = "{"s" * 55}"').slot) == 55
    assert len(load(f'slot = "{"s" * 63}"').slot) == 63
    with pytest.raises(ConfigError, match=r"pgrepl\.toml: sources\.a\.slot: .* leaves 55 bytes"):
        load(pgoutput, f'slot = "{"s" * 56}"')
