"""Removing a source: whole, in halves, and killed in the middle."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from pgrepl.catalog.ownership import ensure_owner
from pgrepl.config.dsn import Side
from pgrepl.drop import drop_source
from pgrepl.errors import AlreadyRunning, TargetError
from pgrepl.postgres.connect import connect
from tests.support.database import Database
from tests.support.program import COMMAND, run_pgrepl, write_config
from tests.support.running.copying import copy, has_slot, make_config, slot_of
from tests.support.waiting import wait_until

CAPTURE = (
    "create schema pgrepl",
    "create table pgrepl.ddl_log (id int)",
    "create function pgrepl.ddl_capture() returns event_trigger language plpgsql as 'begin end'",
    "create event trigger pgrepl_end on ddl_command_end execute function pgrepl.ddl_capture()",
    "create event trigger mine on ddl_command_end execute function pgrepl_not()",
)
NOT_OURS = "create function pgrepl_not() returns event_trigger language plpgsql as 'begin end'"
DEAD = "host=127.0.0.1 port=1 dbname=nowhere connect_timeout=2"


def make_streaming(source: Database, target: Database, *, with_capture: bool = True) -> None:
    """Bring both sides into the state of a streaming source, with something in each table."""
    source.execute("create schema app", "create table app.t (id int primary key)", NOT_OURS)
    if with_capture:
        source.execute(*CAPTURE)
    copy(target, source, is_schema_only=True)
    slot = slot_of(source)
    point = source.value(
        f"select lsn::text from pg_create_logical_replication_slot('{slot}', 'wal2json')"
    )
    name = source.name
    source_id = target.value(f"select source_id from replication.source where name = '{name}'")
    target.execute(
        f"select pg_replication_origin_create('{slot}')",
        f"update replication.source set state = 'streaming', consistent_point = '{point}'"
        f" where source_id = {source_id}",
        "insert into replication.raw_messages values"
        f" ({source_id}, 1, 0, 0, 'parallel', '0/1', '0/2', now(), now(), 1, '{{}}',"
        " 2, true, 'wal2json', 'UTF8')",
        f"insert into replication.receive_progress values ({source_id}, 1, '0/2')",
        f"insert into replication.shard_progress values ({source_id}, 0, 1, 0, '0/1')",
        f"insert into replication.binding values ({source_id}, now(), '0/1')",
        f"insert into replication.failure values ({source_id}, 'receive', now(), 'x')",
        "insert into replication.parked_history (source, schema_name, table_name, action,"
        f" change_count) values ('{name}', 'app', 't', 'park', 1)",
    )


def origins(target: Database) -> set[str]:
    return {name for (name,) in target.rows("select roname from pg_replication_origin")}


def capture_of(source: Database) -> list[str]:
    names = source.rows(
        "select evtname from pg_event_trigger union select nspname from pg_namespace"
        " where nspname = 'pgrepl' order by 1"
    )
    return [name for (name,) in names]


def remaining(target: Database, name: str) -> dict[str, int]:
    """Count the rows about a source in every table of schema replication."""
    if target.value("select to_regnamespace('replication') is null"):
        return {}
    ids = target.rows(f"select source_id from replication.source where name = '{name}'")
    counts = {}
    for table, column in target.rows(
        "select table_name, column_name from information_schema.columns join"
        " information_schema.tables using (table_schema, table_name)"
        " where table_schema = 'replication' and table_type = 'BASE TABLE'"
        " and column_name in ('source_id', 'source')"
    ):
        key = f"'{name}'" if column == "source" else str(ids[0][0] if ids else -1)
        found = target.value(f"select count(*) from replication.{table} where {column} = {key}")
        if found:
            counts[table] = found
    return counts


def drop_by_program(
    folder: Path, target: str, source: Database, *more: str, dsn: str | None = None
):
    config = write_config(folder / "pgrepl.toml", target, {source.name: dsn or source.dsn()})
    done = run_pgrepl("drop", source.name, "--config", config, "--json", *more)
    return done, json.loads(done.stdout) if done.stdout else {}


def test_task_of_replay_that_has_begun_ends_before_the_copies_go(source, target):
    make_streaming(source, target)
    config = make_config(target, source)
    is_waiting = (
        "select exists (select from pg_stat_activity where application_name = 'pgrepl-drop'"
        " and wait_event_type = 'Lock' and datname = current_database())"
    )
    with target.connect() as task, ThreadPoolExecutor() as pool:
        with task.transaction():
            # As a task does: first its position, then the tables.
            task.execute("update replication.shard_progress set applied_seq = 1")
            dropping = pool.submit(drop_source, config, config.sources[source.name], with_data=True)
            wait_until(lambda: target.value(is_waiting))
            task.execute(f"insert into {source.name}_app.t values (1)".encode())
        dropping.result()
    assert remaining(target, source.name) == {}


def test_everything_goes_but_the_copies_and_a_second_run_finds_nothing(source, target, tmp_path):
    make_streaming(source, target)
    done, report = drop_by_program(tmp_path, target.dsn(), source, "--yes")
    assert done.returncode == 0, done.stderr
    assert {(item["side"], item["kind"], item["name"]) for item in report["removed"]} == {
        ("source", "slot", slot_of(source)),
        ("source", "event trigger", "pgrepl_end"),
        ("source", "schema", "pgrepl"),
        ("target", "origin", slot_of(source)),
        ("target", "spool and progress", f"of source {source.name}"),
        ("target", "schema", "replication"),
    }
    assert [item["name"] for item in report["kept"]] == [f"{source.name}_app"]
    assert not has_slot(source)
    assert capture_of(source) == ["mine"]
    assert slot_of(source) not in origins(target)
    assert target.value("select to_regnamespace('replication') is null")
    assert target.value(f"select count(*) from {source.name}_app.t") == 0
    again, report = drop_by_program(tmp_path, target.dsn(), source)
    assert (again.returncode, report["removed"], report["kept"]) == (0, [], [])


@pytest.mark.parametrize("with_capture", [True, False])
def test_what_others_have_in_a_schema_of_that_name_stays(source, target, with_capture):
    make_streaming(source, target, with_capture=with_capture)
    source.execute(
        "create schema if not exists pgrepl",
        "create table pgrepl.theirs (id int)",
        "create event trigger pgrepl_watch on sql_drop execute function pgrepl_not()",
    )
    config = make_config(target, source)
    report = drop_source(config, config.sources[source.name])
    assert report.errors == []
    assert source.value("select count(*) from pgrepl.theirs") == 0
    assert source.value("select to_regclass('pgrepl.ddl_log') is null")
    assert {"pgrepl", "pgrepl_watch"} <= set(capture_of(source))
    assert "pgrepl_end" not in capture_of(source)


def test_view_of_others_on_the_log_is_not_taken_along(source, target, tmp_path):
    make_streaming(source, target)
    source.execute("create view mine as select * from pgrepl.ddl_log")
    done, _ = drop_by_program(tmp_path, target.dsn(), source, "--yes")
    assert done.returncode == 20
    assert "cannot drop table pgrepl.ddl_log because other objects depend on it" in done.stderr
    assert source.value("select count(*) from mine") == 0
    source.execute("drop view mine")
    done, _ = drop_by_program(tmp_path, target.dsn(), source, "--yes")
    assert (done.returncode, capture_of(source)) == (0, ["mine"])


def test_copies_go_when_asked_for(source, target):
    make_streaming(source, target)
    config = make_config(target, source)
    drop_source(config, config.sources[source.name], with_data=True)
    assert target.value(f"select to_regnamespace('{source.name}_app') is null")


def test_nothing_of_another_source_is_touched(source, target, source_cluster, make_database):
    other = make_database(source_cluster, prefix="other")
    make_streaming(source, target)
    make_streaming(other, target)
    before = remaining(target, other.name)
    assert len(before) >= 8
    config = make_config(target, source, other)
    drop_source(config, config.sources[source.name], with_data=True)
    assert remaining(target, other.name) == before
    assert remaining(target, source.name) == {}
    assert has_slot(other)
    assert slot_of(other) in origins(target)
    assert capture_of(other) == ["mine", "pgrepl", "pgrepl_end"]
    assert target.value(f"select count(*) from {other.name}_app.t") == 0


def test_capture_stays_for_another_slot_of_the_same_database(source, target):
    make_streaming(source, target)
    source.execute(f"select pg_create_logical_replication_slot('other_{source.name}', 'wal2json')")
    config = make_config(target, source)
    report = drop_source(config, config.sources[source.name])
    kept = {item.name: item.reason for item in report.items if item.outcome == "kept"}
    assert f"other_{source.name}" in (kept["pgrepl_end"] or "")
    assert capture_of(source) == ["mine", "pgrepl", "pgrepl_end"]
    assert not has_slot(source)


def test_source_that_is_down_is_cleared_by_a_later_run(source, target, tmp_path):
    make_streaming(source, target)
    done, report = drop_by_program(tmp_path, target.dsn(), source, "--yes", dsn=DEAD)
    assert done.returncode == report["exit_code"] == 20
    assert "cannot connect" in done.stderr
    assert slot_of(source) not in origins(target)
    # The record of the slot is all that is left, and that the slot may still be there.
    assert remaining(target, source.name) == {"source": 1, "failure": 1}
    assert has_slot(source)
    done, report = drop_by_program(tmp_path, target.dsn(), source, "--yes")
    assert done.returncode == 0, done.stderr
    assert not has_slot(source)
    assert remaining(target, source.name) == {}
    assert capture_of(source) == ["mine"]


def test_source_that_never_comes_back_can_be_forgotten(source, target, tmp_path):
    make_streaming(source, target)
    done, _ = drop_by_program(tmp_path, target.dsn(), source, "--yes", "--source-is-gone", dsn=DEAD)
    assert done.returncode == 0, done.stderr
    assert remaining(target, source.name) == {}
    assert has_slot(source)


def test_target_that_is_down_is_cleared_by_a_later_run(source, target, tmp_path):
    make_streaming(source, target)
    done, report = drop_by_program(tmp_path, DEAD, source, "--yes")
    assert done.returncode == report["exit_code"] == 30
    assert not has_slot(source)
    assert capture_of(source) == ["mine"]
    done, _ = drop_by_program(tmp_path, target.dsn(), source, "--yes")
    assert done.returncode == 0, done.stderr
    assert remaining(target, source.name) == {}


def test_slot_that_this_target_did_not_make_is_left_alone(source, target):
    source.execute(f"select pg_create_logical_replication_slot('{slot_of(source)}', 'wal2json')")
    config = make_config(target, source)
    report = drop_source(config, config.sources[source.name])
    assert [(item.kind, item.outcome) for item in report.items] == [("slot", "kept")]
    assert has_slot(source)


def test_other_database_behind_the_same_dsn_is_not_touched(source, target):
    make_streaming(source, target)
    target.execute("update replication.source set system_identifier = 1")
    config = make_config(target, source)
    report = drop_source(config, config.sources[source.name])
    assert "another database" in report.errors[0].message
    assert has_slot(source)
    assert remaining(target, source.name) == {"source": 1, "failure": 1}


def test_origin_in_use_stops_it_before_anything_is_gone(source, target):
    make_streaming(source, target)
    before = remaining(target, source.name)
    config = make_config(target, source)
    with target.connect() as receiver:
        receiver.execute("select pg_replication_origin_session_setup(%s)", (slot_of(source),))
        with pytest.raises(AlreadyRunning, match="is in use"):
            drop_source(config, config.sources[source.name], with_data=True)
    assert has_slot(source)
    assert remaining(target, source.name) == before
    assert capture_of(source) == ["mine", "pgrepl", "pgrepl_end"]


def test_slot_in_use_stops_it_before_anything_is_gone(source, target):
    make_streaming(source, target)
    before = remaining(target, source.name)
    config = make_config(target, source)
    with closing(psycopg.connect(source.dsn(), replication="database")) as walsender:
        walsender.pgconn.send_query(
            f'START_REPLICATION SLOT "{slot_of(source)}" LOGICAL 0/0'.encode()
        )
        while walsender.pgconn.is_busy():
            walsender.pgconn.consume_input()
        with pytest.raises(AlreadyRunning, match="is in use by pid"):
            drop_source(config, config.sources[source.name])
    assert remaining(target, source.name) == before


def test_copies_that_others_built_on_stop_it_before_anything_is_gone(source, target):
    make_streaming(source, target)
    target.execute(f"create view mine as select * from {source.name}_app.t")
    before = remaining(target, source.name)
    config = make_config(target, source)
    with pytest.raises(TargetError, match=r"depend on it: public\.mine"):
        drop_source(config, config.sources[source.name], with_data=True)
    assert remaining(target, source.name) == before
    assert slot_of(source) in origins(target)


def test_table_of_others_beside_the_copies_stops_it_before_anything_is_gone(source, target):
    make_streaming(source, target)
    target.execute(f"create table {source.name}_app.notes (id int)")
    config = make_config(target, source)
    before = remaining(target, source.name)
    with pytest.raises(TargetError, match=r"not replicated: \w+_app\.notes"):
        drop_source(config, config.sources[source.name], with_data=True)
    assert remaining(target, source.name) == before
    assert slot_of(source) in origins(target)
    assert has_slot(source)
    drop_source(config, config.sources[source.name])
    assert target.value(f"select count(*) from {source.name}_app.notes") == 0


def test_schema_that_others_built_on_stays(source, target):
    make_streaming(source, target)
    target.execute("create view mine as select * from replication.progress")
    config = make_config(target, source)
    report = drop_source(config, config.sources[source.name])
    reasons = {item.name: item.reason for item in report.items if item.outcome == "kept"}
    assert "public.mine" in (reasons["replication"] or "")
    assert target.value("select count(*) from mine") == 0


@pytest.mark.parametrize(
    "place",
    ["origin_dropped", "state_removed", "target_cleared", "slot_dropped", "capture_removed"],
)
def test_killed_in_the_middle_the_next_run_finishes(source, target, tmp_path, place):
    make_streaming(source, target)
    owner = make_config(target, source).sources[source.name].owner_role
    with connect(target.endpoint(Side.TARGET), "test") as connection:
        ensure_owner(connection, target.endpoint(Side.TARGET), owner)
    config = write_config(tmp_path / "pgrepl.toml", target.dsn(), {source.name: source.dsn()})
    command = ("drop", source.name, "--yes", "--with-data", "--config", config)
    killed = run_pgrepl(*command, env={"PGREPL_FAILPOINT": f"drop.{place}:kill"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert has_slot(source) is (place not in ("slot_dropped", "capture_removed"))
    if place != "origin_dropped":
        # Nobody takes what is left for a source that is to be copied.
        shown = json.loads(run_pgrepl("status", "--json", "--config", config).stdout)
        (problem,) = shown["sources"][0]["problems"]
        assert (problem["kind"], problem["hint"]) == (
            "drop-failed",
            f"Run it again: pgrepl drop {source.name}",
        )
    done = run_pgrepl(*command)
    assert done.returncode == 0, done.stderr
    assert not has_slot(source)
    assert slot_of(source) not in origins(target)
    assert capture_of(source) == ["mine"]
    assert target.value("select to_regnamespace('replication') is null")
    assert target.value(f"select to_regnamespace('{source.name}_app') is null")
    assert target.rows(f"select from pg_roles where rolname = '{owner}'") == []


def test_nobody_there_to_answer_removes_nothing(source, target, tmp_path):
    make_streaming(source, target)
    done, _ = drop_by_program(tmp_path, target.dsn(), source)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert has_slot(source)


def test_unknown_source_is_a_usage_error(source, target, tmp_path):
    config = write_config(tmp_path / "pgrepl.toml", target.dsn(), {source.name: source.dsn()})
    done = run_pgrepl("drop", "nobody", "--yes", "--config", config)
    assert done.returncode == 2


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_person_is_asked_with_what_will_go(source, target, tmp_path, answer, code):
    make_streaming(source, target)
    config = write_config(tmp_path / "pgrepl.toml", target.dsn(), {source.name: source.dsn()})
    keyboard, terminal = pty.openpty()
    os.write(keyboard, f"{answer}\n".encode())
    done = subprocess.run(
        [*COMMAND, "drop", source.name, "--config", config],
        stdin=terminal,
        capture_output=True,
        text=True,
        check=False,
    )
    os.close(keyboard)
    os.close(terminal)
    assert done.returncode == code, done.stderr
    assert f"source slot {slot_of(source)}" in done.stderr
    assert f"target schema {source.name}_app" not in done.stderr
    assert has_slot(source) is (answer == "n")
