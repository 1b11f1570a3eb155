"""Tables copied again while the source is written to and the target follows."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.errors import AlreadyRunning, SourceUnavailable, TargetError, UsageError
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from pgrepl.store.parked import follow_parking
from tests.support.database import Database
from tests.support.program import run_pgrepl
from tests.support.running.copying import Recorder, copy, make_config, slot_of
from tests.support.running.killing import write_copy_config
from tests.support.running.replaying import checksums, replay_slot
from tests.support.waiting import wait_until
from tests.support.workloads.workload import make_tables, writers


def resync(target, source, *tables: str, watcher: Recorder | None = None, wait_s: int = 30) -> Any:
    config = make_config(target, source)
    options = ResyncOptions(tables=TableSelection.of(tables), wait_s=wait_s)
    return resync_tables(config, config.sources[source.name], options, watcher or Recorder())


def states(target) -> dict[str, tuple[str, bool]]:
    return {
        name: (state, is_parked)
        for name, state, is_parked in target.rows(
            "select t.table_name, t.state, p.source_id is not null from replication.source_table t"
            " left join replication.parked_table p using (source_id, schema_name, table_name)"
        )
    }


def test_tables_copied_again_and_the_stream_together_are_the_source(source, target):
    make_tables(source)
    with writers(source):
        copy(target, source)
        there = f"{source.name}_app"
        # Everything that can be wrong with a table; history refers to accounts.
        with target.connect() as connection:
            connection.execute("set session_replication_role = replica")
            connection.execute(f"delete from {there}.accounts where id % 3 = 0".encode())
            connection.execute(f"update {there}.accounts set note = 'bad'".encode())
            connection.execute(f"insert into {there}.moves values (-1, 0, 'extra')".encode())
        target.execute(
            "update replication.source_table set resync_reason = 'lost'"
            " where table_name = 'moves_0'"
        )
        report = resync(target, source, "app.accounts", "app.moves")
    assert {table.table_name for table in report.tables} == {"accounts", "moves_0", "moves_1"}
    found = states(target)
    assert found["accounts"] == found["moves_0"] == ("ready", True)
    assert found["history"] == ("ready", False)
    reasons = dict(target.rows("select table_name, reason from replication.parked_table"))
    assert reasons["moves_0"] == "resync: lost"
    assert target.rows("select distinct kind from replication.parked_table") == [("resync",)]
    assert target.value("select bool_and(resync_reason is null) from replication.source_table")
    assert target.value("select count(*) from replication.copy_part") == 0
    # The one rule decides what of the stream each copy holds already.
    assert replay_slot(source, target, slot_of(source), {"app": there}) > 0
    assert checksums(target, there) == checksums(source, "app")


def test_tables_are_parked_before_the_snapshot_is_taken(source, target):
    make_tables(source)
    copy(target, source)
    seen = []
    watcher = Recorder({"data": lambda: seen.append(states(target)["accounts"])})
    resync(target, source, "app.accounts", watcher=watcher)
    assert seen == [("copying", True)]


def test_batch_of_replay_that_began_before_is_waited_for(source, target):
    make_tables(source)
    copy(target, source)
    source_id = target.value("select source_id from replication.source")
    # Whatever the session is called: that it goes by which tables are parked makes the difference.
    with psycopg.connect(target.dsn()) as replay:
        follow_parking(replay, source_id)
        with pytest.raises(TargetError, match="replay is at work"):
            resync(target, source, "app.accounts", wait_s=1)
    assert states(target)["accounts"] == ("copying", True)
    resync(target, source, "app.accounts")
    assert states(target)["accounts"] == ("ready", True)


def test_open_transaction_of_the_source_is_placed_and_not_waited_for(source, target):
    make_tables(source)
    copy(target, source)
    there = f"{source.name}_app"
    with source.connect() as writer, source.connect() as preparer:
        # One of them gets its number after the last that ended: no snapshot lists it.
        for connection, account in ((writer, 1), (preparer, 2)):
            connection.execute("begin")
            connection.execute("savepoint a")
            connection.execute("update app.accounts set note = %s where id = %s", ("x", account))
            connection.execute("release a")
        preparer.execute("prepare transaction 'late'")
        resync(target, source, "app.accounts", wait_s=1)
        writer.execute("commit")
        preparer.execute("commit prepared 'late'")
    replay_slot(source, target, slot_of(source), {"app": there})
    assert checksums(target, there) == checksums(source, "app")


def test_transaction_that_may_be_committing_is_waited_for_and_named(source, target):
    make_tables(source)
    copy(target, source)
    busy = "do $$ begin perform pg_current_xact_id(); for i in 1..2000000000 loop end loop; end $$"
    with source.connect() as writer:
        pid = writer.info.backend_pid
        call = threading.Thread(target=_run_cancelled, args=(writer, busy))
        call.start()
        try:
            wait_until(
                lambda: source.value(
                    f"select count(*) from pg_locks where pid = {pid}"
                    " and locktype = 'transactionid'"
                )
            )
            with pytest.raises(SourceUnavailable, match=f"may be committing.* pid {pid}"):
                resync(target, source, "app.accounts", wait_s=1)
        finally:
            writer.cancel_safe()
            call.join()


def _run_cancelled(connection: psycopg.Connection, statement: LiteralString) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute(statement)


def resync_until_killed(source: Database, target: Database, folder: Path, place: str) -> None:
    config = write_copy_config(folder, source, target)
    command = ("resync", source.name, "app.accounts", "--config", config)
    killed = run_pgrepl(*command, env={"PGREPL_FAILPOINT": f"{place}:kill"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr


@pytest.mark.parametrize(
    "place",
    [
        "resync.requested",
        "resync.parked",
        pytest.param("resync.waited", marks=pytest.mark.soak),
        pytest.param("resync.planned", marks=pytest.mark.soak),
        "resync.copied",
        "resync.before_swap_commit",
        pytest.param("resync.swapped", marks=pytest.mark.soak),
    ],
)
def test_killed_resync_is_started_over_by_the_same_command(source, target, tmp_path, place):
    make_tables(source)
    copy(target, source)
    resync_until_killed(source, target, tmp_path, place)
    assert states(target)["accounts"][1] == (place != "resync.requested")
    resync(target, source, "app.accounts")
    assert states(target)["accounts"] == ("ready", True)
    there = f"{source.name}_app"
    assert checksums(target, there) == checksums(source, "app")


@pytest.mark.parametrize("place", ["resync.parked", "resync.planned"])
def test_killed_resync_is_not_finished_by_one_of_another_table(source, target, tmp_path, place):
    make_tables(source)
    copy(target, source)
    resync_until_killed(source, target, tmp_path, place)
    resync(target, source, "app.moves")
    assert states(target)["accounts"] == ("copying", True)
    assert states(target)["moves_0"] == ("ready", True)


def test_unknown_table_is_a_usage_error_and_a_running_copy_is_not_disturbed(source, target):
    make_tables(source)
    copy(target, source)
    with pytest.raises(UsageError):
        resync(target, source, "app.nobody")
    again = Recorder({"data": lambda: resync(target, source, "app.accounts")})
    with pytest.raises(AlreadyRunning, match=r"resync of table app\.accounts"):
        resync(target, source, "app.accounts", watcher=again)


def test_two_resyncs_of_different_tables_run_side_by_side(source, target):
    make_tables(source)
    copy(target, source)
    other = Recorder({"data": lambda: resync(target, source, "app.moves")})
    resync(target, source, "app.accounts", watcher=other)
    assert states(target)["accounts"] == states(target)["moves_0"] == ("ready", True)


def test_program_lets_the_tables_go_on(source, target, tmp_path):
    make_tables(source)
    copy(target, source)
    config = write_copy_config(tmp_path, source, target)
    done = run_pgrepl("resync", source.name, "app.accounts", "--json", "--config", config)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["tables"][0]["rows"] == 2000
    assert [table["changes"] for table in report["tables"]] == [0]
    assert not target.rows("select from replication.parked_table")


def test_table_that_lost_changes_and_is_no_more_waits_no_longer(tmp_path, source, target):
    make_tables(source)
    copy(target, source)
    mark = (
        "insert into replication.source_table (source_id, schema_name, table_name, resync_reason)"
    )
    target.execute(f"{mark} select source_id, 'app', 'stage', 'lost' from replication.source")
    config = write_copy_config(tmp_path, source, target)
    done = run_pgrepl("resync", source.name, "app.stage", "--config", config)
    assert (done.returncode, done.stdout[:15]) == (0, "gone: app.stage"), done.stderr
    assert "stage" not in states(target)


def test_table_renamed_on_the_source_alone_goes_on_waiting(source, target):
    make_tables(source)
    copy(target, source)
    target.execute(
        "update replication.source_table set resync_reason = 'lost' where table_name = 'history'"
    )
    source.execute("alter table app.history rename to past")
    with pytest.raises(UsageError, match="no replicated table"):
        resync(target, source, "app.history")
    assert (
        target.value(
            "select resync_reason from replication.source_table where table_name = 'history'"
        )
        == "lost"
    )
