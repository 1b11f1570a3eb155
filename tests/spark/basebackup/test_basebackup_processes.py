"""On a local master processes of our own copy; they end with the program."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from pgrepl.errors import SourceError
from pgrepl.parallel import workers
from tests.support.program import COMMAND
from tests.support.running.copying import Recorder, copy
from tests.support.running.killing import write_copy_config
from tests.support.running.replaying import checksums
from tests.support.waiting import wait_until
from tests.support.workloads.workload import make_tables

WAITING = (
    "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    " and application_name = 'pgrepl-basebackup'"
)


def assert_copied(source, target):
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")


def test_copy_on_a_local_master_never_starts_spark(source, target, monkeypatch):
    def never(*_: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr(workers, "SessionInBackground", never)
    make_tables(source)
    copy(target, source)
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
