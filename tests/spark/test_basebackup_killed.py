"""Killed in every phase and started again, a copy goes on; nothing is lost or doubled."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.support.copying import copy, has_slot, slot_of, state_of
from tests.support.program import COMMAND, run_pgrepl, write_config
from tests.support.replaying import checksums, replay_slot
from tests.support.waiting import wait_until
from tests.support.workload import make_tables, writers

pytestmark = pytest.mark.usefixtures("one_spark_session")

#: Where the run dies, what it leaves as the source's state, and how the next run calls itself.
PLACES = [
    ("source_recorded", "creating", "copied"),
    ("slot_created", "creating", "copied"),
    ("slot_recorded", "copying", "copied"),
    ("schema_made", "copying", "resumed"),
    ("copy_planned", "copying", "resumed"),
    ("table_ready", "copying", "resumed"),
    ("data_copied", "copying", "resumed"),
    ("step_done", "copying", "resumed"),
    ("before_origin", "copying", "resumed"),
    ("origin_set", "copying", "resumed"),
]


@pytest.fixture
def config(tmp_path, source, target):
    path = tmp_path / "pgrepl.toml"
    more = '[spark]\nmaster = "local[2]"'
    write_config(path, target.dsn(), {source.name: source.dsn()}, more)
    return path


@pytest.mark.parametrize("case", PLACES, ids=[place for place, _, _ in PLACES])
def test_run_after_a_kill_goes_on(config, source, target, case):
    place, state, outcome = case
    make_tables(source)
    with writers(source):
        killed = run_pgrepl(
            *("basebackup", source.name, "--config", config),
            env={"PGREPL_FAILPOINT": f"basebackup.{place}:kill"},
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert state_of(target, source) == state
        report = copy(target, source)
    assert report.outcome == outcome
    assert state_of(target, source) == "streaming"
    replay_slot(source, target, slot_of(source), {"app": f"{source.name}_app"})
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")
    keys = "select conname from pg_constraint where connamespace = '{}'::regnamespace order by 1"
    assert target.rows(keys.format(f"{source.name}_app")) == source.rows(keys.format("app"))


def test_kill_in_the_middle_of_a_restart_is_mended_by_the_next_run(config, source, target):
    make_tables(source)
    copy(target, source)
    killed = run_pgrepl(
        *("basebackup", source.name, "--restart", "--config", config),
        env={"PGREPL_FAILPOINT": "basebackup.discarded:kill"},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert state_of(target, source) == "creating"
    assert has_slot(source)
    assert copy(target, source).outcome == "copied"
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")


def test_worker_that_dies_is_an_error_and_the_next_run_goes_on(config, source, target):
    make_tables(source)
    failed = run_pgrepl(
        *("basebackup", source.name, "--config", config),
        env={"PGREPL_FAILPOINT": "basebackup.part_copied:kill"},
    )
    assert failed.returncode == 1
    assert "a copying task ended without a result" in failed.stderr
    assert copy(target, source).outcome == "resumed"
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")


def test_interrupt_while_copying_exits_130_and_the_next_run_goes_on(config, source, target):
    make_tables(source)
    # The copy waits at the target for as long as this lock is held.
    with target.connect() as blocker:
        run = subprocess.Popen(
            [*COMMAND, "basebackup", source.name, "--config", config],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        copied = f"{source.name}_app.accounts"
        wait_until(lambda: target.value(f"select to_regclass('{copied}')"))
        blocker.execute(f"begin; lock table {copied}")
        wait_until(
            lambda: target.value(
                "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
                " and application_name = 'pgrepl-basebackup'"
            )
        )
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert "error: interrupted" in errors
    assert copy(target, source).outcome == "resumed"
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")


def test_program_reports_each_table_and_no_row(config, source):
    make_tables(source)
    done = run_pgrepl("basebackup", source.name, "--config", config)
    assert done.returncode == 0, done.stderr
    assert "app.accounts\t2,000\t" in done.stdout
    assert f"next: pgrepl receive {source.name}" in done.stdout
    assert "note 17" not in done.stdout + done.stderr
