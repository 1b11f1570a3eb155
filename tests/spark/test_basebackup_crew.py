"""Processes of our own copy until Spark is up, and then Spark's tasks do."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from pgrepl.basebackup import job
from pgrepl.basebackup.helper import Helper
from pgrepl.basebackup.worker import TaskReport
from pgrepl.errors import ConfigError, SourceError
from pgrepl.spark_background import SessionInBackground
from tests.support.copying import Recorder, copy
from tests.support.killing import write_copy_config
from tests.support.program import COMMAND
from tests.support.replaying import checksums
from tests.support.waiting import wait_until
from tests.support.workload import make_tables

WAITING = (
    "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    " and application_name = 'pgrepl-basebackup'"
)


def assert_copied(source, target):
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")


def test_small_copy_never_starts_spark(source, target, monkeypatch):
    def never(*_: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr(job, "SessionInBackground", never)
    make_tables(source)
    copy(target, source)
    assert_copied(source, target)


@pytest.mark.usefixtures("one_spark_session")
def test_tasks_of_spark_copy_what_our_processes_leave(source, target, monkeypatch):
    monkeypatch.setattr(job, "_SPARK_FROM_BYTES", 0)
    # As if the session had been up before they began.
    monkeypatch.setattr(Helper, "run", lambda *_: TaskReport([], is_over=False))
    make_tables(source)
    copy(target, source)
    assert_copied(source, target)


@pytest.mark.usefixtures("one_spark_session")
def test_process_told_to_finish_ends_its_part_and_leaves_the_rest(source, target, monkeypatch):
    monkeypatch.setattr(job, "_SPARK_FROM_BYTES", 0)
    make_tables(source)
    reports: list[TaskReport] = []
    run, finish_soon, session = Helper.run, Helper.finish_soon, SessionInBackground.session
    with target.connect() as blocker:

        def lock_all():
            names = ("accounts", "history", "moves_0", "moves_1")
            listed = ", ".join(f"{source.name}_app.{name}" for name in names)
            blocker.execute(f"begin; lock table {listed}")

        def remember(helper, task):
            reports.append(run(helper, task))
            return reports[-1]

        def wait_for_the_first_part(spark):
            if not reports:
                wait_until(lambda: target.value(WAITING))
            return session(spark)

        def tell_and_let_go(helper):
            finish_soon(helper)
            blocker.execute("rollback")

        monkeypatch.setattr(Helper, "run", remember)
        monkeypatch.setattr(Helper, "finish_soon", tell_and_let_go)
        monkeypatch.setattr(SessionInBackground, "session", wait_for_the_first_part)
        copy(target, source, Recorder({"data": lock_all}), jobs=1)
    assert [(report.is_over, list(report.errors)) for report in reports] == [(False, [])]
    assert_copied(source, target)


def test_table_emptied_after_the_keeper_was_lost_is_copied_again(source, target):
    source.execute(
        "create schema app",
        "create table app.big (id int primary key, note text)",
        "create table app.small (id int primary key)",
        "insert into app.big select g, repeat('x', 100) from generate_series(1, 1000) g",
        "insert into app.small select generate_series(1, 10)",
    )
    lost: list[tuple[bool]] = []

    class Meddler(Recorder):
        def show(self, _):
            """While the big table waits, let the small one look empty under the snapshot."""
            if lost:
                return
            wait_until(lambda: target.value(WAITING))
            lost.extend(
                source.rows(
                    "select pg_terminate_backend(pid, 5000) from pg_locks"
                    " where relation = 'app.small'::regclass and mode = 'AccessShareLock'"
                )
            )
            source.execute("truncate app.small; insert into app.small select generate_series(1, 9)")
            blocker.execute("rollback")

    with target.connect() as blocker:
        lock = f"begin; lock table {source.name}_app.big"
        watcher = Meddler({"data": lambda: blocker.execute(lock)})
        with pytest.raises(SourceError, match="lost the session that held the snapshot"):
            copy(target, source, watcher, jobs=1)
    assert lost == [(True,)]
    assert copy(target, source).outcome == "resumed"
    assert_copied(source, target)


def test_spark_that_does_not_start_leaves_the_copy_to_our_processes(
    source, target, monkeypatch, caplog
):
    def broken(_: object) -> None:
        raise ConfigError("Spark does not start on local[2]")

    monkeypatch.setattr(job, "_SPARK_FROM_BYTES", 0)
    monkeypatch.setattr(SessionInBackground, "_start", lambda _: None)
    monkeypatch.setattr(SessionInBackground, "session", broken)
    make_tables(source)
    copy(target, source)
    assert_copied(source, target)
    assert "processes of our own copy on" in caplog.text


def test_processes_end_with_the_program_whatever_ends_it(tmp_path, source, target):
    make_tables(source)
    config = write_copy_config(tmp_path, source, target)
    with target.connect() as blocker:
        run = subprocess.Popen(
            [*COMMAND, "basebackup", source.name, "--config", config],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        copied = f"{source.name}_app.accounts"
        wait_until(lambda: target.value(f"select to_regclass('{copied}')"))
        blocker.execute(f"begin; lock table {copied}")
        wait_until(lambda: target.value(WAITING))
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        run.send_signal(signal.SIGKILL)
        run.wait()
        assert children
        wait_until(lambda: not any(_is_alive(int(pid)) for pid in children))
    copy(target, source)
    assert_copied(source, target)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Nobody may be there to bury it.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
