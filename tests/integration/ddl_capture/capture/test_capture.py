"""The event triggers on a source: they see everything, and get in nobody's way."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from pgrepl.config.dsn import Dsn
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import SchemaTemplate, TableSelection
from pgrepl.ddl_capture import install, read_status, switch, uninstall
from pgrepl.errors import SourceError
from tests.support.database import Database
from tests.support.ddl.following import run_as
from tests.support.program import run_pgrepl, write_config


def config_of(database: Database, **parameters: str) -> SourceConfig:
    return SourceConfig(
        name="shop",
        dsn=Dsn(database.dsn(**parameters)),
        slot="pgrepl_shop",
        schema=SchemaTemplate("{db}_{schema}"),
        selection=TableSelection.of(["*.*"]),
    )


def log(database: Database, columns: str = "kind, tag") -> list[tuple[Any, ...]]:
    return database.rows(f"select {columns} from pgrepl.ddl_log order by id")


@pytest.fixture
def captured(source: Database) -> Database:
    install(config_of(source))
    return source


@pytest.fixture
def user(source: Database):
    source.execute("create role alice login", f"grant create on database {source.name} to alice")
    yield "alice"
    source.execute("drop owned by alice cascade", "drop role alice")


def test_status_goes_from_absent_to_enabled_to_disabled_and_back(source):
    config = config_of(source)
    assert read_status(config).state == "absent"
    assert install(config).state == "enabled"
    assert switch(config, is_on=False).state == "disabled"
    source.execute("create table unseen ()")
    assert switch(config, is_on=True).state == "enabled"
    source.execute("create table seen ()")
    assert [tag for _, tag in log(source)] == ["CREATE TABLE"]
    uninstall(config)
    assert read_status(config).state == "absent"
    assert not source.value("select exists (select from pg_namespace where nspname = 'pgrepl')")


def test_role_that_may_not_look_is_told_what_to_grant(captured, user):
    config = config_of(captured)
    theirs = config_of(captured, user=user)
    with pytest.raises(SourceError, match='is enabled, but role "alice" may not see') as caught:
        read_status(theirs)
    assert caught.value.hint is not None
    grants = caught.value.hint.removeprefix("Let a superuser run there: ").removesuffix(".")
    captured.execute(*grants.split("; "))
    assert read_status(theirs) == read_status(config)
    captured.execute(f"revoke update on pgrepl.capture from {user}")
    assert read_status(theirs).state == "enabled"


def test_installing_again_keeps_the_log(captured):
    captured.execute("create table a ()")
    install(config_of(captured))
    assert len(log(captured)) == 1


def test_capture_is_complete_once_older_transactions_are_over(source):
    with source.connect() as old:
        old.execute("begin")
        old.execute("create table unseen ()")
        assert install(config_of(source)).complete_lsn is None
        assert read_status(config_of(source)).complete_lsn is None
        old.execute("commit")
    status = read_status(config_of(source))
    assert status.complete_lsn is not None
    assert read_status(config_of(source)).complete_lsn == status.complete_lsn


def test_damaged_capture_is_said(captured):
    captured.execute("drop event trigger pgrepl_sql_drop_1")
    assert read_status(config_of(captured)).state == "partial"


def test_role_that_is_no_superuser_is_told_what_to_do(source, user):
    with pytest.raises(SourceError) as caught:
        install(config_of(source, user=user))
    assert "no superuser" in caught.value.message
    assert "pgrepl ddl install shop --sql | psql" in (caught.value.hint or "")


def test_printed_statements_install_the_same(source, user, tmp_path):
    file = write_config(tmp_path / "p.toml", "dbname=w", {"shop": source.dsn(user=user)})
    done = run_pgrepl("ddl", "install", "shop", "--sql", "--config", file)
    assert done.returncode == 0, done.stderr
    source.execute(done.stdout)
    # Who receives may look, and may not write.
    status = json.loads(run_pgrepl("ddl", "status", "shop", "--json", "--config", file).stdout)
    assert (status["state"], status["complete_lsn"] is not None) == ("enabled", True)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_as(source, user, "delete from pgrepl.ddl_log")


def test_commands_say_how_the_capture_is(source, tmp_path):
    file = write_config(tmp_path / "p.toml", "dbname=w", {"shop": source.dsn()})

    def pgrepl(command: str) -> str:
        done = run_pgrepl("ddl", command, "shop", "--config", file)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "not captured" in pgrepl("status")
    assert "completely from" in pgrepl("install")
    assert "switched off" in pgrepl("disable")
    assert "completely from" in pgrepl("enable")
    assert "not captured" in pgrepl("uninstall")


def test_ddl_of_an_ordinary_user_is_captured_with_path_and_role(captured, user):
    run_as(captured, user, "create schema mine", "set search_path = mine; create table t (id int)")
    *_, (tag, invoker, path) = log(captured, "tag, invoker, path")
    assert (tag, invoker, json.loads(path)) == ("CREATE TABLE", "alice", ["mine"])


def test_replica_role_does_not_hide_ddl(captured):
    captured.execute("set session_replication_role = replica; create table t (id int)")
    assert len(log(captured)) == 1


def test_rolled_back_ddl_leaves_nothing(captured):
    captured.execute("begin; create table t (id int); rollback")
    assert log(captured) == []


def test_no_op_and_temporary_objects_leave_nothing(captured):
    captured.execute("create table t (id int)")
    captured.execute(
        "create table if not exists t (id int)",
        "drop table if exists nothing",
        "create temp table x (id int); create index on x (id); alter table x add y int",
        "create temporary table y as select 1",
        "create materialized view m as select 1; refresh materialized view m",
    )
    assert [tag for _, tag in log(captured)] == ["CREATE TABLE", "CREATE MATERIALIZED VIEW"]


def test_table_that_a_function_makes_while_a_temporary_one_is_made_has_its_start(captured):
    captured.execute(
        "create function make() returns int language sql"
        " as 'create table kept as select 1 as id; select 1'"
    )
    captured.execute("create temp table x as select make()")
    assert [row for row in log(captured) if row[1] == "CREATE TABLE AS"] == [
        ("start", "CREATE TABLE AS"),
        ("end", "CREATE TABLE AS"),
    ]


def test_what_the_script_of_an_extension_does_stands_between_its_start_and_its_end(captured):
    captured.execute(
        "create extension if not exists plpgsql; create extension hstore; create table t (id int)",
        "drop extension hstore",
    )
    rows = log(captured, "kind, tag, ordinal")
    assert [row for row in rows if row[1] != "DROP OPERATOR"] == [
        ("start", "CREATE EXTENSION", 1),
        ("end", "CREATE EXTENSION", 1),
        ("start", "CREATE EXTENSION", 2),
        ("end", "CREATE EXTENSION", 2),
        ("end", "CREATE TABLE", 3),
        ("end", "DROP EXTENSION", None),
    ]
    assert [row[1] for row in rows[3:-3]] == ["DROP OPERATOR"] * 2


@pytest.mark.parametrize(
    "ddl",
    [
        "create index concurrently i on t (id)",
        "drop index concurrently j",
        "reindex index concurrently j",
        "alter table p detach partition p1 concurrently",
        "vacuum t",
        "create unlogged table u (id int)",
        "refresh materialized view concurrently m",
        "create database never_made template nothing",
    ],
)
def test_commands_that_dislike_triggers_run_as_ever(captured, ddl):
    captured.execute(
        "create table t (id int); create index j on t (id)",
        "create table p (id int) partition by list (id);"
        " create table p1 partition of p for values in (1)",
        "create materialized view m as select 1 as x; create unique index on m (x)",
    )
    if "never_made" in ddl:
        with pytest.raises(psycopg.errors.InvalidCatalogName):
            captured.execute(ddl)
    else:
        captured.execute(ddl)


def test_old_rows_are_pruned(captured):
    captured.execute("create table a ()")
    captured.execute("update pgrepl.ddl_log set stmt_at = now() - interval '8 days'")
    captured.execute("create table b ()")
    assert captured.value("select pgrepl.prune()") == 1
    assert log(captured, "query") == [("create table b ()",)]
