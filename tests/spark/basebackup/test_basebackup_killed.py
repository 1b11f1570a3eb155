"""Killed in every phase and started again, a copy goes on; nothing is lost or doubled."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.support.program import COMMAND, run_pgrepl
from tests.support.running.copying import copy, has_slot, state_of
from tests.support.running.killing import kill_and_go_on, write_copy_config
from tests.support.running.replaying import checksums
from tests.support.waiting import wait_until
from tests.support.workloads.workload import make_tables

pytestmark = pytest.mark.usefixtures("one_spark_session")

#: Where the run dies, what it leaves as the source's state, and how the next run calls itself.
#: More places are in tests/soak.
PLACES = [
    ("source_recorded", "creating", "copied"),
    ("slot_created", "creating", "copied"),
    ("slot_recorded", "copying", "copied"),
    ("schema_made", "copying", "resumed"),
    ("table_ready", "copying", "resumed"),
    ("origin_created", "copying", "resumed"),
    ("origin_set", "copying", "resumed"),
]
#: Those that are left to make soak.
LONG = {"slot_recorded", "schema_made", "table_ready", "origin_created"}


@pytest.fixture
def config(tmp_path, source, target):
    return write_copy_config(tmp_path, source, target)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case[0], marks=[pytest.mark.soak] if case[0] in LONG else [])
        for case in PLACES
    ],
)
def test_run_after_a_kill_goes_on(tmp_path, source, target, case):
    kill_and_go_on(tmp_path, source, target, case)


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("old_origin_dropped", marks=pytest.mark.soak),
        "discarded",
        pytest.param("old_slot_dropped", marks=pytest.mark.soak),
    ],
)
def test_kill_in_the_middle_of_a_restart_is_fixed_by_the_next_run(config, source, target, place):
    make_tables(source)
    copy(target, source)
    killed = run_pgrepl(
        *("basebackup", source.name, "--restart", "--config", config),
        env={"PGREPL_FAILPOINT": f"basebackup.{place}:kill"},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    is_whole = place == "old_origin_dropped"
    assert state_of(target, source) == ("streaming" if is_whole else "creating")
    assert has_slot(source) is (place != "old_slot_dropped")
    # Where nothing of the copy was touched yet, nobody starts over unasked.
    assert copy(target, source, is_restart=is_whole).outcome == "copied"
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")


def test_source_may_change_between_a_kill_after_the_rows_and_the_next_run(config, source, target):
    source.execute(
        "create table gone (id serial primary key)", "create table kept (id int primary key)"
    )
    killed = run_pgrepl(
        *("basebackup", source.name, "--config", config),
        env={"PGREPL_FAILPOINT": "basebackup.data_copied:kill"},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    source.execute(
        "drop table gone",
        "create table root (id int primary key) partition by range (id)",
        "alter table root attach partition kept for values from (1) to (100)",
    )
    assert copy(target, source).outcome == "resumed"
    assert state_of(target, source) == "streaming"


def test_worker_that_dies_is_an_error_and_the_next_run_goes_on(config, source, target):
    make_tables(source)
    failed = run_pgrepl(
        *("basebackup", source.name, "--config", config),
        env={"PGREPL_FAILPOINT": "basebackup.part_copied:kill"},
    )
    assert failed.returncode == 1
    assert "a worker process ended without a result" in failed.stderr
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
