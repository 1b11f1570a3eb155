"""``pgrepl progress`` on a real target."""

from __future__ import annotations

import json
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.database import Database
from tests.support.observing.bindings import add_streaming_source, publish_at
from tests.support.program import COMMAND, run_pgrepl, write_config


@pytest.fixture
def config(target: Database, tmp_path: Path) -> Path:
    # The source itself is not asked: it may be down.
    return write_config(tmp_path / "pgrepl.toml", target.dsn(), {"shop": "host=127.0.0.1 port=1"})


@pytest.fixture
def source_id(target: Database) -> int:
    return add_streaming_source(target)


def progress(config: Path, *arguments: str, code: int = 0) -> str:
    done = run_pgrepl("progress", "shop", "--config", config, *arguments)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def bind(target: Database, source_id: int, *pairs: tuple[str, str]) -> None:
    for at, lsn in pairs:
        target.execute(f"insert into replication.binding values ({source_id}, '{at}', '{lsn}')")


def test_newest_bindings_are_printed_in_order(target, source_id, config):
    publish_at(target, source_id, *range(0x200, 0x20C))
    lines = progress(config).splitlines()
    assert [line.split()[1] for line in lines] == [f"0/{lsn:X}" for lsn in range(0x202, 0x20C)]
    times = [datetime.fromisoformat(line.split()[0]) for line in lines]
    assert (
        times == [at for (at,) in target.rows("select at from replication.binding order by at")][2:]
    )


def test_time_in_the_past_is_answered(target, source_id, config):
    bind(target, source_id, ("2026-03-01 00:00+00", "0/100"), ("2026-03-02 00:00+00", "0/200"))
    expected = "2026-03-01T00:00:00.000000Z 0/100\n"
    for at in ("2026-03-01", "2026-03-01 12:00", "2026-03-02T00:59:59+01:00"):
        assert progress(config, "--as-of", at) == expected
    assert json.loads(progress(config, "--as-of", "2026-03-02T01:00+01:00", "--json")) == [
        {"source": "shop", "at": "2026-03-02T00:00:00.000000Z", "lsn": "0/200"}
    ]


def test_time_before_the_oldest_binding_has_no_answer(target, source_id, config):
    bind(target, source_id, ("2026-03-01 00:00+00", "0/100"))
    text = progress(config, "--as-of", "2026-02-28", code=2)
    assert "the oldest binding kept is of 2026-03-01" in text


def test_time_ahead_has_no_answer(target, source_id, config):
    publish_at(target, source_id, 0x200)
    ahead = datetime.now(UTC) + timedelta(minutes=5)
    assert "lies ahead" in progress(config, "--as-of", ahead.isoformat(), code=2)


@pytest.mark.parametrize("arguments", [("--as-of", "noon"), ("--as-of", "2026-03-01", "--follow")])
def test_nonsense_is_a_usage_error(source_id, config, arguments):  # noqa: ARG001
    progress(config, *arguments, code=2)


def test_source_of_which_nothing_was_published_says_so(source_id, config):  # noqa: ARG001
    for arguments in ((), ("--as-of", "2026-03-01"), ("--follow",)):
        text = progress(config, *arguments, code=30)
        assert "nothing was published yet" in text
        assert "pgrepl replay" in text


def test_source_that_was_never_copied_says_so(config):
    assert "pgrepl basebackup shop" in progress(config, code=30)


def test_unknown_source_is_a_usage_error(config):
    assert run_pgrepl("progress", "shpo", "--config", config).returncode == 2


def test_target_that_is_down_is_an_error(tmp_path):
    config = write_config(
        tmp_path / "pgrepl.toml", "host=127.0.0.1 port=1", {"shop": "host=127.0.0.1 port=1"}
    )
    assert "target: cannot connect" in progress(config, code=30)


def test_following_prints_each_new_binding_once(target, source_id, config):
    publish_at(target, source_id, 0x200, 0x201)
    with subprocess.Popen(
        [*COMMAND, "progress", "shop", "--config", config, "--follow", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        output = process.stdout
        assert output is not None
        assert json.loads(output.readline())["lsn"] == "0/201"
        publish_at(target, source_id, *range(0x202, 0x20A))
        lines = [json.loads(output.readline())["lsn"] for _ in range(8)]
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
        assert output.read() == ""
    assert lines == [f"0/{lsn:X}" for lsn in range(0x202, 0x20A)]
