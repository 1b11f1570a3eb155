"""Switching, renewing and removing the capture, also as a role that is no superuser."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from pgrepl.ddl_capture import install, read_status, switch, uninstall
from pgrepl.errors import SourceError
from tests.integration.ddl_capture.capture.test_capture import config_of, log
from tests.support.database import Database
from tests.support.ddl.following import Following, run_as
from tests.support.program import run_pgrepl, write_config

OLDER = Path(__file__).parents[3] / "support" / "sql" / "older_capture.sql"


@pytest.fixture
def role(source: Database) -> Iterator[str]:
    """Return a role that may receive, and no more."""
    name = f"{source.name}_role"
    source.execute(f"create role {name} login replication")
    yield name
    source.execute(f"drop owned by {name}", f"drop role {name}")


@pytest.fixture
def pgrepl(source: Database, role: str, tmp_path: Path) -> Callable[..., str]:
    """Return what runs a command of ``pgrepl ddl`` as the role, and returns what it prints."""
    config = write_config(tmp_path / "p.toml", "dbname=w", {"shop": source.dsn(user=role)})

    def run(command: str, *options: str, code: int = 0) -> str:
        done = run_pgrepl("ddl", command, "shop", *options, "--config", config)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    return run


def test_role_that_runs_pgrepl_switches_the_capture(source, role, pgrepl):
    source.execute(pgrepl("install", "--sql"))
    before = read_status(config_of(source, user=role))
    assert before.complete_lsn is not None
    assert "switched off" in pgrepl("disable")
    source.execute("create table unseen ()")
    off = read_status(config_of(source, user=role))
    assert (off.state, off.complete_lsn) == ("disabled", None)
    assert off.off_lsn is not None
    assert off.off_lsn >= before.complete_lsn
    # Once more changes nothing of what is known.
    pgrepl("disable")
    assert read_status(config_of(source, user=role)).off_lsn == off.off_lsn
    assert "completely from" in pgrepl("enable")
    on = read_status(config_of(source, user=role))
    assert (on.off_at, on.off_lsn) == (off.off_at, off.off_lsn)
    assert on.complete_lsn is not None
    assert on.complete_lsn > off.off_lsn
    source.execute("create table seen ()")
    assert log(source, "query") == [("create table seen ()",)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_as(source, role, "drop event trigger pgrepl_sql_drop_1")


def test_what_the_role_may_not_do_is_printed_for_a_superuser(source, pgrepl):
    hint = pgrepl("install", code=20)
    assert "pgrepl ddl install shop --sql | psql" in hint
    # A machine with pgrepl on it has no server to connect to by default.
    assert f"host={source.cluster.socket_dir} port={source.cluster.port}" in hint
    source.execute(pgrepl("install", "--sql"))
    # As of a capture that an older version installed.
    source.execute("drop function pgrepl.switch(boolean)")
    assert "pgrepl ddl disable shop --sql | psql" in pgrepl("disable", code=20)
    source.execute(pgrepl("disable", "--sql"))
    off = read_status(config_of(source))
    assert (off.state, off.is_outdated, off.off_lsn is not None) == ("disabled", True, True)
    assert "pgrepl ddl enable shop --sql | psql" in pgrepl("enable", code=20)
    source.execute(pgrepl("enable", "--sql"))
    assert read_status(config_of(source)).complete_lsn is not None
    assert "pgrepl ddl uninstall shop --sql | psql" in pgrepl("uninstall", code=20)
    source.execute(pgrepl("uninstall", "--sql"))
    assert source.value("select to_regnamespace('pgrepl') is null")
    assert "not captured" in pgrepl("status")


def test_capture_that_cannot_note_it_can_be_switched_off(source):
    config = config_of(source)
    install(config)
    source.execute("alter table pgrepl.capture add check (complete_lsn is not null) not valid")
    source.execute("create or replace function pgrepl.table_definition(rel oid) returns json"
                   " language plpgsql as 'begin raise exception ''broken''; end'")  # fmt: skip
    with pytest.raises(psycopg.errors.RaiseException):
        source.execute("create table t (id int)")
    source.execute("select pgrepl.switch(false)")
    source.execute("create table t (id int)")


def test_damaged_capture_is_switched_off_by_what_is_printed(source, pgrepl):
    source.execute(pgrepl("install", "--sql"))
    source.execute("drop event trigger pgrepl_ddl_command_start_0")
    source.execute(pgrepl("disable", "--sql"))
    assert source.value("select bool_and(evtenabled = 'D') from pg_event_trigger")


def test_what_others_have_in_the_schema_stays(source):
    config = config_of(source)
    install(config)
    source.execute("create table pgrepl.notes (id int)")
    uninstall(config)
    assert source.rows("select relname from pg_class where relnamespace = 'pgrepl'::regnamespace"
                       " and relkind = 'r'") == [("notes",)]  # fmt: skip


def test_triggers_that_somebody_disabled_by_hand_are_noticed(source):
    config = config_of(source)
    first = install(config)
    for (name,) in source.rows("select evtname from pg_event_trigger"):
        source.execute(f"alter event trigger {name} disable")
    assert (read_status(config).state, read_status(config).complete_lsn) == ("disabled", None)
    second = switch(config, is_on=True)
    assert second.complete_lsn is not None
    assert first.complete_lsn is not None
    assert second.complete_lsn > first.complete_lsn


@pytest.mark.parametrize("renewing", ["look", "install", "enable"])
def test_triggers_that_were_off_for_a_moment_are_noticed(source, renewing):
    config = config_of(source)
    first = install(config)
    assert first.complete_lsn is not None
    assert read_status(config).complete_lsn == first.complete_lsn
    # Nobody looks in between.
    for action in ("disable", "enable always"):
        source.execute(f"alter event trigger pgrepl_ddl_command_end_1 {action}")
        source.execute("create table t (id int)" if action == "disable" else "drop table t")
    if renewing == "install":
        install(config)
    elif renewing == "enable":
        switch(config, is_on=True)
    second = read_status(config)
    assert second.complete_lsn is not None
    assert second.complete_lsn > first.complete_lsn
    assert read_status(config).complete_lsn == second.complete_lsn


def test_capture_that_is_enabled_twice_stays_complete(source):
    first = install(config_of(source))
    assert switch(config_of(source), is_on=True).complete_lsn == first.complete_lsn is not None
    assert read_status(config_of(source)).complete_lsn == first.complete_lsn


def test_capture_that_is_renewed_stays_complete(source):
    first = install(config_of(source))
    assert install(config_of(source)).complete_lsn == first.complete_lsn is not None


def test_renewing_a_capture_that_was_off_knows_that_it_was(source):
    first = install(config_of(source))
    switch(config_of(source), is_on=False)
    again = install(config_of(source))
    assert again.complete_lsn is not None
    assert first.complete_lsn is not None
    assert again.complete_lsn > first.complete_lsn


def test_open_transaction_with_ddl_makes_nobody_wait(source):
    config = config_of(source)
    install(config)
    with source.connect() as other:
        other.execute("begin")
        other.execute("create table mine ()")
        with pytest.raises(SourceError) as caught:
            uninstall(config)
        assert "still open" in (caught.value.hint or "")
        assert read_status(config).state == "absent"
        source.execute("create table theirs ()")
        other.execute("commit")
    uninstall(config)
    assert source.value("select to_regnamespace('pgrepl') is null")


def test_capture_of_an_older_version_is_renewed_without_loss(source, target, role):
    following = Following(source, target).begin()
    config = following.config.source(following.name)
    uninstall(config)
    source.execute(OLDER.read_text(encoding="utf-8"))
    source.execute(
        f"grant usage on schema pgrepl to {role}",
        f"grant select on pgrepl.ddl_log to {role}",
        f"grant select, update on pgrepl.capture to {role}",
        "delete from pgrepl.ddl_log",
    )
    before = read_status(config)
    assert (before.state, before.is_outdated) == ("enabled", True)
    # What the older triggers wrote, some of it not yet received.
    source.execute(
        "create schema app; create table app.a (id int primary key, b int, c int)",
        "create table app.gone (id int primary key)",
        "alter table app.a drop column b; drop table app.gone",
    )
    assert len(log(source)) == 7
    after = install(config)
    assert (after.state, after.is_outdated) == ("enabled", False)
    assert after.complete_lsn == before.complete_lsn
    assert (
        source.rows(
            "select from pg_depend where refobjid = 'pgrepl.ddl_log'::regclass and classid ="
            " 'pg_class'::regclass and deptype in ('i', 'a') and objid in"
            " (select oid from pg_class where relkind in ('S', 'i'))"
        )
        == []
    )
    source.execute("alter table app.a drop column c; create table app.d (id int primary key)")
    source.execute("drop table app.d; create table app.e (id int primary key)")
    following.follow()
    assert following.problems("app") == []
    ids = source.rows("select id from pgrepl.ddl_log order by ctid")
    assert ids == sorted(set(ids))
    # Who could look before can switch now.
    assert switch(config_of(source, user=role), is_on=False).state == "disabled"


def test_script_of_an_extension_is_its_own_affair_on_the_target(follow):
    following = follow()
    following.run(
        "create schema app; create extension hstore; create table app.t (id int primary key)",
        "begin; create extension pg_stat_statements; drop table app.t;"
        " create table app.u (id int primary key); commit",
    )
    assert following.problems("app") == []
    assert [tag for _, tag in following.history()] == [
        "CREATE SCHEMA",
        "CREATE EXTENSION",
        "CREATE TABLE",
        "CREATE EXTENSION",
        "DROP TABLE",
        "CREATE TABLE",
    ]


def test_settings_of_a_session_do_not_show_in_the_structure(follow):
    following = follow()
    following.run(
        "create schema app; set quote_all_identifiers = on; set datestyle = 'German';"
        " set timezone = 'Asia/Tokyo'; set intervalstyle = 'sql_standard'",
        "create table app.t (id int primary key check (id > 0), d date default '2020-12-31',"
        " at timestamptz default '2020-01-01 00:00:00+00', i interval default '1 day 2 hours')",
    )
    assert following.problems("app") == []


@pytest.mark.parametrize("visit", [1, 2])
def test_killed_between_its_steps_the_next_run_finishes(source, tmp_path, visit):
    config = write_config(tmp_path / "p.toml", "dbname=w", {"shop": source.dsn()})
    env = {"PGREPL_FAILPOINT": f"ddl.capture_step:kill:{visit}"}
    install_it = ("ddl", "install", "shop", "--config", config)
    assert run_pgrepl(*install_it, env=env).returncode == -signal.SIGKILL
    # The triggers are there; from where on all is captured is noted by the next look.
    source.execute("create table seen ()")
    assert log(source, "query") == [("create table seen ()",)]
    assert run_pgrepl(*install_it).returncode == 0
    assert read_status(config_of(source)).complete_lsn is not None
    remove_it = ("ddl", "uninstall", "shop", "--config", config)
    assert run_pgrepl(*remove_it, env=env).returncode == -signal.SIGKILL
    source.execute("create table unseen ()")
    assert run_pgrepl(*remove_it).returncode == 0
    assert read_status(config_of(source)).state == "absent"
