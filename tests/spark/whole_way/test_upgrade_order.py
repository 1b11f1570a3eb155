"""An upgrade from programs of this repository's history, with work of theirs in flight.

``make test`` upgrades from the program before the newest step of the schema, ``make soak`` from the
one before each step.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.support.database import Database
from tests.support.observing.invariants import broken_invariants
from tests.support.older import Older, install_before, steps_with_a_program_before
from tests.support.program import run_pgrepl, start_pgrepl, write_config
from tests.support.running.replaying import checksums
from tests.support.waiting import wait_until

#: From this version on a program knows both plugins.
PGOUTPUT = 15
#: This step changed what a receiver spools.
SHORT_LINES = 36
_PATIENCE_S = 120


def upgrades(steps: Sequence[int], plugins: Sequence[str], quick: str) -> list[ParameterSet]:
    """Return a step and a plugin for each upgrade; all but one that is quick are of soak."""
    newest = max(steps_with_a_program_before(), default=0)
    return [
        pytest.param(
            (step, plugin),
            marks=() if (step, plugin) == (newest, quick) else pytest.mark.soak,
            id=f"{step}-{plugin}",
        )
        for step in dict.fromkeys((*steps, newest))
        for plugin in plugins
        if step > PGOUTPUT or plugin != "pgoutput"
    ]


BOTH = ("wal2json", "pgoutput")


@pytest.fixture(scope="module")
def older_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Older]:
    folder = tmp_path_factory.mktemp("older")
    return cache(lambda step: install_before(step, folder / str(step)))


@pytest.fixture
def older(upgrade: tuple[int, str], older_of: Callable[[int], Older]) -> Older:
    return older_of(upgrade[0])


@pytest.fixture
def config(
    older: Older, upgrade: tuple[int, str], source: Database, bare_target: Database, tmp_path: Path
) -> Path:
    """Return the configuration of a source that the older program has copied."""
    source.execute(
        "create table t (id int primary key, note text)",
        "create table u (id int primary key)",
        "create table p (id int primary key, note text)",
        "insert into t select g, 'old' from generate_series(1, 50) g",
    )
    more = '[spark]\nmaster = "local[1]"\n'
    path = write_config(tmp_path / "p.toml", bare_target.dsn(), {"shop": source.dsn()}, more)
    if upgrade[1] != "wal2json":
        with path.open("a", encoding="utf-8") as file:
            file.write(f'plugin = "{upgrade[1]}"\n')
    older.must(path, "basebackup", "shop")
    if older.run(path, "receive", "shop", "--once").returncode == 1:
        # A commit in the middle of a series: nobody ran it.
        pytest.skip("the program before this step ends as a bug of its own")
    return path


def change(source: Database, number: int) -> None:
    source.execute(
        f"insert into t (id, note) values ({number}, 'ü ☃ \\'), ({number} + 1, null)",
        f"begin; truncate u; insert into u values ({number}); commit",
        f"update t set note = 'from {number}' where id % 3 = 0; delete from t where id = {number}",
    )


def is_equal(source: Database, target: Database) -> bool:
    return checksums(source, "public") == checksums(target, f"{source.name}_public")


def new(config: Path, *arguments: str, status: int = 0) -> None:
    done = run_pgrepl(*arguments, "--config", config)
    assert done.returncode == status, done.stderr


@pytest.mark.parametrize("upgrade", upgrades([*steps_with_a_program_before()], BOTH, "wal2json"))
def test_what_is_in_flight_is_applied(source, bare_target, older, config):
    """Spooled changes and DDL, and what waits for a parked table."""
    target = bare_target
    older.must(config, "ddl", "install", "shop")
    change(source, 100)
    older.must(config, "receive", "shop", "--once")
    older.must(config, "replay", "--once")
    assert is_equal(source, target)
    target.execute(f"insert into {source.name}_public.p values (1, 'not of the source')")
    source.execute("insert into p values (1, 'ü')")
    older.must(config, "receive", "shop", "--once")
    assert older.run(config, "replay", "--once").returncode == 50
    source.execute("update p set note = '☃'", "alter table t add column extra int default 7")
    change(source, 200)
    older.must(config, "receive", "shop", "--once")
    assert target.value("select count(*) from replication.raw_messages")

    new(config, "replay", "--once", status=50)
    for command in (["receive", "shop", "--once"], ["replay", "--once"]):
        assert older.is_refused(config, *command)
    # Over pgoutput older programs look first whether the capture is published.
    assert older.run(config, "basebackup", "shop").returncode in (20, 30)
    target.execute(f"delete from {source.name}_public.p")
    new(config, "parked", "retry", "shop", "public.p")
    assert is_equal(source, target)
    source.execute("alter table t rename column extra to more", "update t set more = 8")
    change(source, 300)
    new(config, "receive", "shop", "--once")
    new(config, "replay", "--once")
    assert is_equal(source, target)
    assert broken_invariants(target) == []


@pytest.mark.parametrize("upgrade", upgrades([SHORT_LINES], BOTH, "wal2json"))
def test_receiver_first(source, bare_target, older, config, tmp_path):
    log = tmp_path / "older.log"
    change(source, 100)
    older.must(config, "receive", "shop", "--once")
    with older.running(config, log, "replay") as replay:
        wait_until(lambda: is_equal(source, bare_target), timeout_s=_PATIENCE_S)
        change(source, 200)
        # It brings the schema up to date, under the replayer that runs.
        new(config, "receive", "shop", "--once")
        foreign = "select exists (select from replication.raw_messages where format like '%short')"
        if older.version < SHORT_LINES and bare_target.value(foreign):
            # It does not know the format: it says so, and applies nothing of it.
            wait_until(lambda: "format" in log.read_text(encoding="utf-8"), timeout_s=_PATIENCE_S)
            assert not is_equal(source, bare_target)
        else:
            wait_until(lambda: is_equal(source, bare_target), timeout_s=_PATIENCE_S)
            assert replay.poll() is None
    assert older.is_refused(config, "replay", "--once")
    new(config, "replay", "--once")
    assert is_equal(source, bare_target)
    assert broken_invariants(bare_target) == []


@pytest.mark.parametrize("upgrade", upgrades([SHORT_LINES], BOTH, "pgoutput"))
def test_replayer_first(source, bare_target, older, config, tmp_path):
    with (
        (tmp_path / "new.log").open("wb") as sink,
        older.running(config, tmp_path / "older.log", "receive", "shop") as receive,
    ):
        change(source, 100)
        spooled = "select count(*) from replication.raw_messages"
        wait_until(
            lambda: bare_target.value(spooled) or receive.poll() is not None,
            timeout_s=_PATIENCE_S,
        )
        assert receive.poll() is None
        # It brings the schema up to date, under the receiver that runs.
        replay = start_pgrepl("replay", "--config", config, env={}, sink=sink)
        try:
            wait_until(lambda: is_equal(source, bare_target), timeout_s=_PATIENCE_S)
            change(source, 200)
            wait_until(lambda: is_equal(source, bare_target), timeout_s=_PATIENCE_S)
        finally:
            replay.send_signal(signal.SIGTERM)
            replay.wait(120)
        assert receive.poll() is None
    assert older.is_refused(config, "receive", "shop", "--once")
    change(source, 300)
    new(config, "receive", "shop", "--once")
    new(config, "replay", "--once")
    assert is_equal(source, bare_target)
    assert broken_invariants(bare_target) == []
