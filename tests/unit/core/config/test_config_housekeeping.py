"""The section ``[housekeeping]``."""

from __future__ import annotations

import tomllib
from datetime import timedelta

import pytest

from pgrepl.config.file import load_config
from pgrepl.durations import parse_duration, write_duration
from pgrepl.errors import ConfigError
from tests.support.program import run_pgrepl, write_config


@pytest.fixture
def write(tmp_path):
    def write_with(*lines: str):
        more = "\n".join(["[housekeeping]", *lines])
        return write_config(tmp_path / "pgrepl.toml", "dbname=w", {"a": "dbname=a"}, more)

    return write_with


def test_defaults_are_indexes_and_thirty_days(write):
    housekeeping = load_config(write()).housekeeping
    assert (housekeeping.foreign_key_indexes, housekeeping.history) == (True, timedelta(days=30))


def test_settings_are_read(write):
    path = write("foreign_key_indexes = false", 'history = "12h"')
    housekeeping = load_config(path).housekeeping
    assert (housekeeping.foreign_key_indexes, housekeeping.history) == (False, timedelta(hours=12))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('foreign_key_indexes = "no"', "foreign_key_indexes: must be true or false"),
        ("foreign_key_indexes = 1", "foreign_key_indexes: must be true or false"),
        ("history = 30", "history: must be a text"),
        ('history = ""', "history: must not be empty"),
        ('history = "a month"', "history: .*is not a duration"),
        ('history = "36501d"', "history: must be 36500d at most"),
        ('histroy = "1d"', 'histroy: unknown key; did you mean "history"'),
    ],
)
def test_mistake_is_named(write, line, reason):
    with pytest.raises(ConfigError, match=rf"housekeeping\.{reason}"):
        load_config(write(line))


def test_show_prints_what_the_file_takes(write):
    done = run_pgrepl("config", "show", "--config", write('history = "90min"'))
    shown = tomllib.loads(done.stdout)["housekeeping"]
    assert shown == {"foreign_key_indexes": True, "history": "90min"}


@pytest.mark.parametrize("text", ["30d", "12h", "90min", "7s", "1500ms", "0s"])
def test_duration_is_written_as_it_is_read(text):
    assert write_duration(parse_duration(text)) == text
