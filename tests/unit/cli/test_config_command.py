from __future__ import annotations

import json
import tomllib

import pytest

from tests.support.program import run_pgrepl

TEXT = """
[target]
dsn = "postgresql://pgrepl:s3cr3t@warehouse/w"
[spark]
conf = { "spark.authenticate.secret" = "s3cr3t", "spark.executor.memory" = "2g" }
[sources.shop]
dsn = "host=db dbname=shop password=s3cr3t"
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "pgrepl.toml"
    path.write_text(TEXT)
    return path


def test_check_names_the_file_and_its_sources(config):
    done = run_pgrepl("config", "check", "--config", config)
    assert done.stdout == f"{config}: no mistakes; sources: shop\n"
    assert (done.returncode, done.stderr) == (0, "")


def test_check_names_each_mistake_on_a_line_of_its_own(config):
    config.write_text("[target]\ndsn = 5\n[replay]\nshards = 0\n[sources.shop]\ndsn = 'dbname=a'\n")
    done = run_pgrepl("config", "check", "--config", config)
    assert done.returncode == 10
    assert done.stderr.splitlines() == [
        f"error: {config}: 2 mistakes",
        "  target.dsn: must be a text in quotes, not a number",
        "  replay.shards: must lie between 1 and 64, not 0",
    ]


def test_check_in_json(config):
    done = run_pgrepl("config", "check", "--config", config, "--json")
    assert json.loads(done.stdout) == {"path": str(config), "sources": ["shop"]}


def test_show_is_toml_with_defaults_filled_in_and_secrets_masked(config):
    done = run_pgrepl("config", "show", "--config", config)
    assert "s3cr3t" not in done.stdout
    shown = tomllib.loads(done.stdout)
    assert shown["replay"] == {
        "shards": 4,
        "batch_seconds": 30,
        "consistency": "shard",
        "on_error": "park",
        "on_conflict": "error",
    }
    assert shown["sources"]["shop"]["slot"] == "pgrepl_shop"
    assert shown["spark"]["conf"]["spark.authenticate.secret"] == "********"
    assert shown["spark"]["conf"]["spark.executor.memory"] == "2g"


def test_show_in_json_holds_the_same(config):
    as_toml = tomllib.loads(run_pgrepl("config", "show", "--config", config).stdout)
    as_json = json.loads(run_pgrepl("config", "show", "--config", config, "--json").stdout)
    assert as_json == as_toml


def test_environment_names_the_file(config):
    done = run_pgrepl("config", "check", env={"PGREPL_CONFIG": str(config)})
    assert done.returncode == 0


def test_option_wins_over_the_environment(config, tmp_path):
    env = {"PGREPL_CONFIG": str(tmp_path / "none.toml")}
    assert run_pgrepl("config", "check", "--config", config, env=env).returncode == 0


def test_file_in_the_current_folder_is_found(config):
    assert run_pgrepl("config", "check", cwd=config.parent).returncode == 0


def test_no_configuration_at_all(tmp_path):
    done = run_pgrepl("config", "check", cwd=tmp_path, env={"HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (10, "")
    assert done.stderr.startswith("error: no pgrepl.toml found")
    assert "\nhint: " in done.stderr


def test_broken_toml(tmp_path):
    path = tmp_path / "pgrepl.toml"
    path.write_text("[target\n")
    done = run_pgrepl("config", "check", "--config", path)
    assert done.returncode == 10
    assert done.stderr.startswith(f"error: {path}: not TOML: ")
    assert "line 1" in done.stderr
