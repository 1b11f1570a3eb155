"""The role that owns a source's schemas on the target."""

from __future__ import annotations

import json

import pytest

from pgrepl.config.file import load_config
from pgrepl.errors import ConfigError
from tests.support.program import run_pgrepl, write_config


@pytest.fixture
def write(tmp_path):
    def write_with(line: str):
        path = write_config(tmp_path / "pgrepl.toml", "dbname=w", {"a": "dbname=a"})
        path.write_text(path.read_text(encoding="utf-8") + line, encoding="utf-8")
        return path

    return write_with


@pytest.mark.parametrize(("line", "role"), [("", "pgrepl_a"), ('owner = "Odd Name"', "Odd Name")])
def test_role_is_named_after_the_source_unless_the_file_names_it(write, line, role):
    path = write(line)
    assert load_config(path).source("a").owner_role == role
    shown = json.loads(run_pgrepl("config", "show", "--json", "--config", path).stdout)
    assert shown["sources"]["a"]["owner"] == role


def test_name_that_postgresql_would_cut_is_refused(write):
    with pytest.raises(ConfigError, match=r"sources\.a\.owner: a role's name has at most 63"):
        load_config(write(f'owner = "{"é" * 32}"'))
