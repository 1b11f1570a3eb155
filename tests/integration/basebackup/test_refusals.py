"""What a copy refuses before it copies anything, and that it leaves no slot behind."""

from __future__ import annotations

import json
import logging
import subprocess
import threading
from typing import Any

import pytest

from pgrepl.basebackup.dry_run import plan_copy
from pgrepl.basebackup.preflight import prepare
from pgrepl.basebackup.report import CopyOptions
from pgrepl.basebackup.schema.dump import read_dump
from pgrepl.basebackup.snapshot import keep_new_snapshot
from pgrepl.catalog.tables import read_tables
from pgrepl.config.dsn import Side
from pgrepl.config.naming import TableSelection
from pgrepl.config.rules import Rules
from pgrepl.errors import ConfigError, SourceError, SourceUnavailable, TargetError, UsageError
from pgrepl.postgres.connect import connect
from tests.support.program import run_pgrepl, write_config
from tests.support.running.copying import copy, has_slot, make_config, state_of, structure
from tests.support.waiting import wait_until
from tests.support.workloads.workload import make_tables


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch):
    """These runs end before there is anything for Spark to do."""

    class Never:
        def __init__(self, *_: object) -> None:
            pass

        def stop(self) -> None:
            pass

    monkeypatch.setattr("pgrepl.basebackup.run.start_copy_workers", Never)


def test_schema_that_exists_is_not_touched(source, target):
    make_tables(source)
    target.execute(f"create schema {source.name}_app")
    with pytest.raises(
        TargetError, match=f"pgrepl did not make for this source: {source.name}_app"
    ):
        copy(target, source)
    assert not has_slot(source)
    target.execute(f"drop schema {source.name}_app")


def test_missing_extension_is_named_with_the_command_that_mends_it(source, target):
    source.execute("create extension citext", "create table t (id int primary key, a citext)")
    with pytest.raises(TargetError, match="extensions that are missing: citext") as caught:
        copy(target, source)
    assert 'CREATE EXTENSION "citext"' in (caught.value.hint or "")
    assert not has_slot(source)


def test_name_that_is_too_long_is_a_mistake_of_the_configuration(source, target):
    source.execute(f"create schema {'s' * 60}", f"create table {'s' * 60}.t (id int primary key)")
    with pytest.raises(ConfigError, match="the limit is 63") as caught:
        copy(target, source)
    assert caught.value.exit_code == 10
    assert not has_slot(source)


def test_patterns_that_match_nothing_are_a_mistake_of_the_configuration(source, target):
    make_tables(source)
    with pytest.raises(ConfigError, match="no table of source"):
        copy(target, source, tables=TableSelection.of(["nobody.*"]))


def test_table_cut_off_from_its_parent_is_refused(source, target):
    source.execute(
        "create table parent (id int primary key)",
        "create table child (primary key (id)) inherits (parent)",
    )
    with pytest.raises(SourceError, match=r"need public\.parent"):
        copy(target, source, tables=TableSelection.of(["public.child"]))
    assert not has_slot(source)
    assert state_of(target, source) == "creating"


def test_body_that_names_a_schema_stops_the_copy_when_more_than_a_default_needs_it(source, target):
    source.execute(
        "create schema app",
        "create function app.one() returns int language sql immutable as 'select 1'",
        "create function app.f(int) returns boolean language plpgsql immutable as"
        " 'begin return $1 > app.one(); end'",
        "create table app.t (id int primary key check (app.f(id)))",
    )
    with pytest.raises(
        SourceError, match=r"plpgsql body of function app\.f\(int4\) names a schema"
    ):
        copy(target, source, trust_code=True)
    assert not has_slot(source)


def test_locked_table_is_named_with_who_locked_it(source, target):
    make_tables(source)
    with source.connect() as migration:
        migration.execute("begin; lock table app.history")
        pid = migration.info.backend_pid
        with pytest.raises(SourceUnavailable, match=rf"app\.history is locked by pid {pid}"):
            copy(target, source, lock_timeout_s=1)
    assert not has_slot(source)
    assert state_of(target, source) == "creating"


@pytest.mark.parametrize("change", ["truncate app.moves_1", "vacuum full app.history"])
def test_table_that_changes_its_file_between_snapshot_and_lock_is_noticed(source, change):
    make_tables(source)
    keeper = keep_new_snapshot(source.endpoint(Side.SOURCE))
    with keeper.connection:
        tables = read_tables(keeper.connection, Rules())
        source.execute(change)
        with pytest.raises(SourceUnavailable, match=r"truncated or rewritten while .*: app\."):
            keeper.lock(tables, 5)


def test_ddl_waits_while_the_tables_are_copied(source):
    make_tables(source)
    keeper = keep_new_snapshot(source.endpoint(Side.SOURCE))
    with keeper.connection:
        keeper.lock(read_tables(keeper.connection, Rules()), 5)
        with source.connect() as other, pytest.raises(Exception, match="lock timeout"):
            other.execute("set lock_timeout = 200; truncate app.moves")


def test_waiting_for_a_writer_names_its_pid(source, target, caplog):
    make_tables(source)
    caplog.set_level(logging.WARNING, "pgrepl")
    writer = source.connect()
    writer.execute("begin; insert into app.moves values (9999, 0, '')")
    failures: list[BaseException] = []

    def run() -> None:
        # A schema in the way ends the run after its slot.
        try:
            copy(target, source)
        except SourceUnavailable as exc:
            failures.append(exc)

    thread = threading.Thread(target=run)
    locker = source.connect()
    thread.start()
    wait_until(lambda: f"pid {writer.info.backend_pid}" in caplog.text)
    locker.execute("begin; lock table app.history")
    writer.execute("commit")
    writer.close()
    wait_until(lambda: source.value("select count(*) from pg_locks where not granted"))
    source.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
        " and application_name = 'pgrepl-basebackup' and wait_event_type = 'Lock'"
    )
    thread.join()
    locker.close()
    assert len(failures) == 1
    assert not has_slot(source)


def test_table_that_changed_since_the_copy_began_is_not_resumed(source, target):
    make_tables(source)
    pretend_interrupted(source, target)
    source.execute("alter table app.history add column more int")
    with pytest.raises(SourceError, match=r"tables changed since the copy began: app\.history"):
        copy(target, source)


def test_copy_whose_slot_is_gone_is_not_resumed(source, target):
    make_tables(source)
    pretend_interrupted(source, target)
    source.execute(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
        " where database = current_database()"
    )
    with pytest.raises(SourceError, match="does not exist any more") as caught:
        copy(target, source)
    assert "--restart" in (caught.value.hint or "")


def test_other_database_under_the_same_name_is_refused(source, target):
    make_tables(source)
    pretend_interrupted(source, target)
    target.execute("update replication.source set system_identifier = 1")
    with pytest.raises(SourceError, match="is another database"):
        copy(target, source)


def pretend_interrupted(source, target, **options) -> None:
    """Bring the target into the state that a run killed after its schema leaves."""
    copy(target, source, is_schema_only=True, **options)
    slot = f"pgrepl_{source.name}"
    source.execute(f"select pg_create_logical_replication_slot('{slot}', 'wal2json')")
    target.execute("update replication.source set state = 'copying', consistent_point = '0/1'")


ONE = TableSelection.of(["app.accounts"])


@pytest.mark.parametrize("state", ["copying", "streaming"])
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"is_schema_only": True}, "--schema-only"),
        ({"tables": TableSelection.of(["*.*"])}, "--tables"),
        ({"tables": TableSelection.of(["app.accounts"], ["app.moves"])}, "--exclude"),
        ({"tables": ONE, "with_all_indexes": False}, "--indexes"),
        ({"with_views": True}, "--views"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_options_other_than_those_the_copy_began_with_are_refused(
    source, target, state, options, named
):
    make_tables(source)
    pretend_interrupted(source, target, tables=ONE, with_all_indexes=True)
    target.execute(f"update replication.source set state = '{state}'")
    with pytest.raises(UsageError, match=f"with other options than {named}$") as caught:
        copy(target, source, **options)
    assert caught.value.exit_code == 2
    assert "--restart" in (caught.value.hint or "")
    assert state_of(target, source) == state


def test_options_that_are_the_same_or_not_given_are_not_refused(source, target):
    make_tables(source)
    began_with: dict[str, Any] = {"tables": ONE, "with_all_indexes": True, "with_views": True}
    pretend_interrupted(source, target, **began_with)
    target.execute("update replication.source set state = 'streaming'")
    assert copy(target, source, **began_with).outcome == "already copied"
    assert copy(target, source).outcome == "already copied"


def test_options_for_a_copy_that_an_older_version_began_are_said_to_have_no_effect(
    source, target, caplog
):
    caplog.set_level(logging.WARNING, "pgrepl")
    make_tables(source)
    pretend_interrupted(source, target)
    target.execute("update replication.source set state = 'streaming', copy_options = null")
    copy(target, source)
    assert "have no effect" not in caplog.text
    copy(target, source, tables=ONE)
    assert "was made already: options that say what to copy have no effect" in caplog.text


def test_excluding_what_is_copied_already_exits_2(source, target, tmp_path):
    make_tables(source)
    pretend_interrupted(source, target)
    target.execute("update replication.source set state = 'streaming'")
    config = write_config(tmp_path / "pgrepl.toml", target.dsn(), {source.name: source.dsn()})
    done = run_pgrepl("basebackup", source.name, "--exclude", "app.*", "--config", config)
    assert done.returncode == 2, done.stderr
    assert "with other options than --exclude" in done.stderr


@pytest.mark.parametrize("options", [{}, {"is_restart": True}], ids=["plain", "restart"])
def test_schema_that_is_made_anew_spares_what_others_built_there(source, target, options):
    make_tables(source)
    copy(target, source, is_schema_only=True)
    schema = f"{source.name}_app"
    target.execute(f"create view mine as select * from {schema}.accounts")
    with pytest.raises(TargetError, match=r"depend on it: public\.mine"):
        copy(target, source, is_schema_only=True, **options)
    target.execute("drop view mine", f"create table {schema}.notes (id int primary key)")
    with pytest.raises(TargetError, match=rf"that are not replicated: {schema}\.notes"):
        copy(target, source, is_schema_only=True, **options)
    assert target.value(f"select count(*) from {schema}.notes") == 0
    target.execute(f"drop table {schema}.notes")
    assert copy(target, source, is_schema_only=True, **options).outcome == "schema made"


def test_schema_only_makes_the_schema_without_slot_or_rows(source, target):
    make_tables(source)
    report = copy(target, source, is_schema_only=True)
    assert report.outcome == "schema made"
    assert not has_slot(source)
    assert target.value(f"select count(*) from {source.name}_app.accounts") == 0
    prefix = f"{source.name}_"
    here = {row for row in structure(target, ["app"], prefix) if row[0] != "sequence"}
    there = {row for row in structure(source, ["app"]) if row[0] != "sequence"}
    assert here == there


def test_dry_run_prints_the_plan_and_changes_nothing(source, bare_target, tmp_path):
    make_tables(source)
    config = write_config(tmp_path / "pgrepl.toml", bare_target.dsn(), {source.name: source.dsn()})
    done = run_pgrepl("basebackup", source.name, "--dry-run", "--json", "--config", config)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert {table["name"] for table in plan["tables"]} == {
        "app.accounts",
        "app.history",
        "app.moves_0",
        "app.moves_1",
    }
    assert any("PRIMARY KEY" in step["sql"] for step in plan["steps"])
    assert not has_slot(source)
    assert bare_target.value("select to_regnamespace('replication')") is None


def test_source_that_doctor_fails_is_refused_with_its_exit_code(source, bare_target, tmp_path):
    source.execute("create table keyless (a int)")
    config = write_config(tmp_path / "pgrepl.toml", bare_target.dsn(), {source.name: source.dsn()})
    done = run_pgrepl("basebackup", source.name, "--config", config)
    assert done.returncode == 20
    assert "replica-identity" in done.stderr
    assert bare_target.value("select to_regnamespace('replication')") is None


def test_password_is_in_no_argument_of_pg_dump(source, monkeypatch):
    """The conninfo reaches pg_dump by its environment."""
    seen = []
    real = subprocess.run

    def spy(command, **options):
        seen.append((command, options.get("env", {})))
        return real(command, **options)

    monkeypatch.setattr("pgrepl.basebackup.schema.dump.subprocess.run", spy)
    make_tables(source)
    endpoint = source.endpoint(Side.SOURCE, password="s3cret")
    major, _ = source.cluster.binaries.version
    read_dump(endpoint, major, ["app"], excluded_tables=[], snapshot=None, lock_timeout_s=5)
    commands = [command for command, _ in seen]
    assert not any("s3cret" in str(command) for command in commands)
    assert any(env.get("PGPASSWORD") == "s3cret" for _, env in seen)


def test_needed_objects_are_found_however_far_away(source):
    source.execute(
        "create schema far",
        "create type far.kind as enum ('a')",
        "create domain far.kinds as far.kind[]",
        "create type far.pair as (k far.kinds)",
        "create table t (id int primary key, p far.pair)",
    )
    config = make_config(source, source)
    with connect(source.endpoint(Side.SOURCE), "test") as connection:
        preparation = prepare(connection, config.sources[source.name], CopyOptions())
    assert set(preparation.schemas) == {"far", "public"}


def test_dry_run_of_a_recorded_source_misses_no_extension(source, target):
    make_tables(source)
    copy(target, source, is_schema_only=True)
    source.execute("create extension citext", "create table t (id int primary key, a citext)")
    config = make_config(target, source)
    with pytest.raises(TargetError, match="extensions that are missing: citext"):
        plan_copy(config, config.sources[source.name], CopyOptions(), default_jobs=1)
