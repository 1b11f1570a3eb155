"""A source that the target knows and the configuration does not have any more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.drop.test_drop import capture_of, make_streaming, origins, remaining
from tests.support.database import Database
from tests.support.program import run_pgrepl, write_config
from tests.support.running.copying import has_slot, slot_of


@pytest.fixture
def config(source: Database, target: Database, tmp_path: Path) -> Path:
    """Return a configuration without the source that streams."""
    make_streaming(source, target)
    return write_config(tmp_path / "pgrepl.toml", target.dsn(), {"another": source.dsn()})


def pgrepl(config: Path, *arguments: str, code: int):
    done = run_pgrepl(*arguments, "--config", config, "--json")
    assert done.returncode == code, (done.stdout, done.stderr)
    return done, json.loads(done.stdout) if done.stdout else {}


def test_status_shows_its_slot_and_how_to_drop_it(config, source, target):
    _, found = pgrepl(config, "status", source.name, code=20)
    (shown,) = found["sources"]
    (problem,) = shown["problems"]
    assert (shown["name"], shown["state"]) == (source.name, "not configured")
    assert (problem["kind"], problem["exit_code"]) == ("not-configured", 20)
    assert slot_of(source) in problem["message"]
    assert f"pgrepl drop {source.name} --dsn" in problem["hint"]
    _, found = pgrepl(config, "status", code=30)
    assert [shown["name"] for shown in found["sources"]] == ["another", source.name]
    text = run_pgrepl("status", "--details", "--config", config).stdout
    assert f'slot "{slot_of(source)}"' in text
    # Who asks for one source hears of no other, and of none that nobody knows.
    _, found = pgrepl(config, "status", "another", code=30)
    assert [shown["name"] for shown in found["sources"]] == ["another"]
    done, _ = pgrepl(config, "status", "nobody", code=2)
    assert 'there is no source "nobody"' in json.loads(done.stderr)["error"]
    assert target.value("select count(*) from replication.source") == 1


def test_with_its_dsn_everything_of_it_goes(config, source, target):
    pgrepl(config, "drop", source.name, "--yes", "--dsn", source.dsn(), code=0)
    assert not has_slot(source)
    assert capture_of(source) == ["mine"]
    assert slot_of(source) not in origins(target)
    assert remaining(target, source.name) == {}


def test_without_its_dsn_the_target_is_cleared_and_the_slot_stays_on_record(config, source, target):
    done, report = pgrepl(config, "drop", source.name, "--yes", "--with-data", code=20)
    assert f"pg_drop_replication_slot('{slot_of(source)}')" in done.stderr
    assert "--dsn" in done.stderr
    assert ("target", "origin") in {(item["side"], item["kind"]) for item in report["removed"]}
    assert target.value(f"select to_regnamespace('{source.name}_app') is null")
    assert remaining(target, source.name) == {"source": 1, "failure": 1}
    assert has_slot(source)
    # What is left is still told, and a later run does the rest.
    _, found = pgrepl(config, "status", source.name, code=20)
    assert found["sources"][0]["problems"][0]["kind"] == "not-configured"
    pgrepl(config, "drop", source.name, "--yes", "--dsn", source.dsn(), code=0)
    assert not has_slot(source)
    assert target.value("select to_regnamespace('replication') is null")


def test_it_can_be_forgotten_when_its_slot_was_dropped_by_hand(config, source, target):
    pgrepl(config, "drop", source.name, "--yes", code=20)
    pgrepl(config, "drop", source.name, "--yes", "--source-is-gone", code=0)
    assert remaining(target, source.name) == {}


def test_another_database_at_its_dsn_is_not_touched(config, source, target):
    done, _ = pgrepl(config, "drop", source.name, "--yes", "--dsn", target.dsn(), code=20)
    assert "another database" in done.stderr
    assert has_slot(source)
    assert remaining(target, source.name) == {"source": 1, "failure": 1}


@pytest.mark.parametrize(
    ("name", "dsn", "reason"),
    [
        ("another", "dbname=x", "has the DSN of source"),
        ("nobody", "dbname=x", "there is no source"),
        ("nobody", "dbname=x password=hush", "can see a password"),
        ("nobody", "no dsn", "--dsn: "),
    ],
)
def test_dsn_that_is_of_no_use_is_a_usage_error(config, name, dsn, reason):
    done, _ = pgrepl(config, "drop", name, "--yes", "--dsn", dsn, code=2)
    assert reason in done.stderr
    assert "hush" not in done.stderr
