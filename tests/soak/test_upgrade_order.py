"""Receiver and replayer are upgraded in either order, the older program beside the new one.

The older program is that of the commit before the last step of the schema which changed what the
spool holds, out of this repository's history.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.database import Database
from tests.support.own_code import ROOT
from tests.support.program import run_pgrepl, start_pgrepl, write_config
from tests.support.running.replaying import checksums
from tests.support.waiting import wait_until

#: It knows the schema up to version 35: no short lines in the spool.
BEFORE = "7ad9ac42c1c8303ee7279838751c64f91f896b05"
_PATIENCE_S = 300


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the older program's package, laid out as it is installed."""
    folder = tmp_path_factory.mktemp("before")
    packed = subprocess.run(
        ["git", "-C", ROOT, "archive", BEFORE], capture_output=True, check=False
    )
    if packed.returncode != 0:
        pytest.skip("the history of this repository is not here")
    subprocess.run(["tar", "-xf", "-", "-C", folder], input=packed.stdout, check=True)
    package = folder / "installed" / "pgrepl"
    shutil.copytree(folder / "core", package)
    for found in folder.iterdir():
        if (found / "__init__.py").exists() and found.name not in {"core", "tests"}:
            shutil.copytree(found, package / found.name)
    return folder / "installed"


class Older:
    """The older program, as a person runs it."""

    def __init__(self, package: Path, config: Path, log: Path) -> None:
        self._arguments = [sys.executable, "-m", "pgrepl.cli"]
        self._config = config
        self._log = log
        self._env = {**os.environ, "PYTHONPATH": str(package)}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*self._arguments, *arguments, "--config", str(self._config)]
        return subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        command = [*self._arguments, *arguments, "--config", str(self._config)]
        with self._log.open("ab") as sink:
            process = subprocess.Popen(command, env=self._env, stdout=sink, stderr=sink)
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(120)

    @property
    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")


@pytest.fixture(params=["wal2json", "pgoutput"])
def plugin(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def scene(source: Database, bare_target: Database, tmp_path: Path, plugin: str) -> Path:
    source.execute(
        "create table t (id int primary key, note text)",
        "create table u (id int primary key)",
        "insert into t select g, 'old' from generate_series(1, 50) g",
    )
    more = '[spark]\nmaster = "local[1]"\n'
    path = write_config(tmp_path / "p.toml", bare_target.dsn(), {"shop": source.dsn()}, more)
    with path.open("a", encoding="utf-8") as file:
        file.write(f'plugin = "{plugin}"\n')
    return path


def change(source: Database, number: int) -> None:
    source.execute(
        f"insert into t values ({number}, 'ü ☃ \\'), ({number} + 1, null)",
        f"begin; truncate u; insert into u values ({number}); commit",
        f"update t set note = 'from {number}' where id % 3 = 0; delete from t where id = {number}",
    )


def is_equal(source: Database, target: Database) -> bool:
    return checksums(source, "public") == checksums(target, f"{source.name}_public")


def new(config: Path, *arguments: str) -> None:
    done = run_pgrepl(*arguments, "--config", config)
    assert done.returncode == 0, done.stderr


def test_receiver_first(source, bare_target, scene, before, tmp_path):
    older = Older(before, scene, tmp_path / "older.log")
    copied = older.run("basebackup", "shop")
    assert copied.returncode == 0, copied.stderr
    change(source, 100)
    assert older.run("receive", "shop", "--once").returncode == 0
    with older.running("replay") as replay:
        wait_until(lambda: is_equal(source, bare_target), timeout_s=_PATIENCE_S)
        change(source, 200)
        # It brings the schema up to date, under the replayer that runs.
        new(scene, "receive", "shop", "--once")
        short = "select exists (select from replication.raw_messages where format like '%short')"
        if bare_target.value(short):
            # It does not know the format: it says so, and applies nothing of it.
            wait_until(lambda: "format" in older.said, timeout_s=_PATIENCE_S)
            assert not is_equal(source, bare_target)
        else:
            wait_until(lambda: is_equal(source, bare_target), timeout_s=_PATIENCE_S)
        assert replay.poll() is None or bare_target.value(short)
    refused = older.run("replay", "--once")
    assert refused.returncode == 30
    assert "knows versions up to 35" in refused.stderr
    new(scene, "replay", "--once")
    assert is_equal(source, bare_target)


def test_replayer_first(source, bare_target, scene, before, tmp_path):
    older = Older(before, scene, tmp_path / "older.log")
    assert older.run("basebackup", "shop").returncode == 0
    with (tmp_path / "new.log").open("wb") as sink, older.running("receive", "shop"):
        change(source, 100)
        spooled = "select count(*) from replication.raw_messages"
        wait_until(lambda: bare_target.value(spooled), timeout_s=_PATIENCE_S)
        # It brings the schema up to date, under the receiver that runs.
        replay = start_pgrepl("replay", "--config", scene, env={}, sink=sink)
        try:
            wait_until(lambda: is_equal(source, bare_target), timeout_s=_PATIENCE_S)
            change(source, 200)
            wait_until(lambda: is_equal(source, bare_target), timeout_s=_PATIENCE_S)
        finally:
            replay.send_signal(signal.SIGTERM)
            replay.wait(120)
    refused = older.run("receive", "shop", "--once")
    assert refused.returncode == 30
    assert "knows versions up to 35" in refused.stderr
    change(source, 300)
    new(scene, "receive", "shop", "--once")
    new(scene, "replay", "--once")
    assert is_equal(source, bare_target)
