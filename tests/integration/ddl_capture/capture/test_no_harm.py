"""No program on a source notices that its DDL is captured."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from pgrepl.ddl_capture import install, uninstall
from pgrepl.errors import SourceError
from tests.integration.ddl_capture.capture.test_capture import config_of, log
from tests.support.database import Database
from tests.support.observing.sessions import has_compiled


@pytest.fixture
def captured(source: Database) -> Database:
    install(config_of(source))
    return source


@pytest.fixture
def user(source: Database) -> Iterator[str]:
    name = f"{source.name}_user"
    source.execute(f"create role {name} login", f"grant all on database {source.name} to {name}")
    source.execute(f"create schema mine authorization {name}")
    yield name
    source.execute(f"drop owned by {name} cascade", f"drop role {name}")


def test_sequences_of_a_session_are_its_own(captured, user):
    with captured.connect(user=user) as session:
        session.execute("create table mine.t (id int)")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="not yet defined"):
            session.execute("select lastval()")
        session.execute("create sequence mine.s start 42")
        session.execute("select nextval('mine.s')")
        session.execute("drop table mine.t")
        assert session.execute("select lastval()").fetchone() == (42,)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_transactions_with_ddl_side_by_side_are_not_cancelled(captured, level):
    captured.execute("create table old ()")
    captured.execute("update pgrepl.ddl_log set stmt_at = now() - interval '8 days'")
    sessions = [captured.connect() for _ in range(3)]
    for session in sessions:
        session.execute(f"begin isolation level {level}".encode())
        session.execute("select count(*) from pg_class")
    for turn in range(2):
        for number, session in enumerate(sessions):
            session.execute(f"create table t{turn}{number} (id int primary key)".encode())
            session.execute(f"drop table if exists nothing{number}".encode())
    captured.execute("select pgrepl.prune()")
    for number, session in enumerate(sessions):
        session.execute(f"drop table t0{number}".encode())
        session.execute("commit")
        session.close()
    assert len(log(captured)) == 9


def test_sessions_with_open_ddl_do_not_wait_for_one_another(captured):
    with captured.connect() as one, captured.connect(options="-c lock_timeout=2s") as other:
        one.execute("begin; create table a (id int)")
        other.execute("begin; create table b (id int); drop table b")
        other.execute("create table c (id int)")
        other.execute("commit")
        one.execute("commit")
    assert [tag for _, tag in log(captured)].count("CREATE TABLE") == 3


def test_command_that_does_nothing_takes_no_transaction_id(captured):
    captured.execute("create table t (id int)")
    with captured.connect() as session:
        session.execute("begin")
        session.execute("create table if not exists t (id int)")
        session.execute("drop table if exists nothing")
        assigned = session.execute("select pg_current_xact_id_if_assigned()").fetchone()
        session.execute("rollback")
    assert assigned == (None,)


@pytest.mark.parametrize(
    "settings",
    [
        "set standard_conforming_strings = off",
        "set plpgsql.extra_errors = 'all'; set plpgsql.extra_warnings = 'all'",
        "set quote_all_identifiers = on; set datestyle = 'German'; set intervalstyle = 'iso_8601'",
        "set transform_null_equals = on",
        # Renamed in 16.
        "select set_config(name, 'on', false) from pg_settings where name ~ 'parallel_(mo|q)'",
        "set search_path = ''; set row_security = off; set enable_indexscan = off",
        "set pgrepl.caller = 'x'; set pgrepl.count = 'y'; set pgrepl.script = 'z'",
    ],
)
def test_no_setting_of_a_session_shows_the_capture(captured, user, settings):
    said: list[str] = []
    with captured.connect(user=user) as session:
        session.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        session.execute(settings.encode())
        session.execute(
            "create table mine.t (id int primary key, d date default '2020-02-01');"
            " alter table mine.t add check (id > 0); create temp table x as select 1;"
            " drop table mine.t, x"
        )
        session.execute("show all")
        session.execute("reset all")
        session.execute("create table mine.u (id int)")
        session.execute("discard all")
        session.execute("create table mine.v (id int)")
    assert said == []
    assert {(tag, who) for tag, who in log(captured, "tag, invoker")} == {
        ("CREATE SCHEMA", "postgres"),
        ("CREATE TABLE AS", user),
        ("CREATE TABLE", user),
        ("ALTER TABLE", user),
        ("DROP TABLE", user),
    }


def test_no_query_of_the_capture_is_compiled(captured):
    with captured.connect() as session:
        assert not has_compiled(session)
        session.execute("set jit = on; set jit_above_cost = 0")
        session.execute("create table t (id int primary key, n text default 'n')")
        session.execute("alter table t alter n type varchar(9); drop table t")
        assert not has_compiled(session)
        assert session.execute("show jit").fetchone() == ("on",)


def test_role_without_the_functions_of_everybody_runs_ddl(captured, user):
    functions = (
        "set_config(text, text, boolean), current_setting(text), to_hex(bigint), current_query()"
    )
    captured.execute(f"revoke execute on function {functions} from public")
    with captured.connect(user=user) as session:
        session.execute("create table mine.t (id int); alter table mine.t add x int")
        session.execute("drop table mine.t")
    assert [tag for _, tag in log(captured)][-3:] == ["CREATE TABLE", "ALTER TABLE", "DROP TABLE"]


def test_function_of_a_user_sees_its_own_diagnostics(captured, user):
    with captured.connect(user=user) as session:
        session.execute(
            "create function mine.f() returns text language plpgsql as $$ declare n bigint; begin"
            " perform 1 where false; execute 'create table mine.t (id int)';"
            " get diagnostics n = row_count; return found::text || n; end $$"
        )
        assert session.execute("select mine.f()").fetchone() == ("false0",)


def test_rows_of_a_transaction_are_in_order_whatever_was_rolled_back(captured):
    captured.execute(
        "begin; create table a (); savepoint s; create table b (); rollback to s;"
        " create table c (); savepoint s; create table d (); release s; drop table a; commit"
    )
    rows = captured.rows("select id, query, ordinal, tag from pgrepl.ddl_log order by ctid")
    assert [row[3] for row in rows] == ["CREATE TABLE"] * 3 + ["DROP TABLE"]
    ids = [row[0] for row in rows]
    assert ids == sorted(set(ids))
    assert max(ids) < 2**53  # so that no reader of JSON rounds it


def test_privileges_by_default_let_nobody_in(source, user):
    source.execute(
        f"alter default privileges grant all on tables to {user}",
        f"alter default privileges grant all on schemas to {user}",
    )
    install(config_of(source))
    for attempt in (
        "insert into pgrepl.ddl_log (kind, tag, xid) values ('end', 'DROP TABLE', '1')",
        "create rule r as on insert to pgrepl.ddl_log do instead nothing",
        "delete from pgrepl.ddl_log",
        "update pgrepl.capture set complete_lsn = null",
        "create table pgrepl.x ()",
        "select pgrepl.switch(false)",
        "select pgrepl.prune()",
    ):
        with source.connect(user=user) as session, pytest.raises(psycopg.Error):
            session.execute(attempt.encode())
    source.execute(
        f"alter default privileges revoke all on tables from {user}",
        f"alter default privileges revoke all on schemas from {user}",
    )


@pytest.mark.parametrize(
    "prepared",
    [
        "create schema pgrepl",
        "create schema pgrepl; create table pgrepl.ddl_log (id int)",
        (
            "create schema pgrepl;"
            " create table pgrepl.capture (horizon xid8, complete_lsn pg_lsn);"
            " insert into pgrepl.capture values ('1', '0/1');"
            " create function pgrepl.steal() returns trigger language plpgsql as $$"
            " begin execute format('alter role %I superuser', '{user}'); return new; end $$;"
            " create trigger steal before update on pgrepl.capture"
            " for each row execute function pgrepl.steal()"
        ),
    ],
)
def test_schema_that_a_user_prepared_is_refused(source, user, prepared):
    with source.connect(user=user) as session:
        session.execute(prepared.replace("{user}", user).encode())
    with pytest.raises(SourceError, match='belongs to role "') as caught:
        install(config_of(source))
    assert "Rename or drop it" in (caught.value.hint or "")
    assert source.value("select count(*) from pg_event_trigger") == 0
    uninstall(config_of(source))
    assert not source.value(f"select rolsuper from pg_roles where rolname = '{user}'")


def test_function_that_a_user_prepared_is_refused(source, user):
    source.execute("create schema pgrepl", f"grant create, usage on schema pgrepl to {user}")
    with source.connect(user=user) as session:
        session.execute(
            "create function pgrepl.ddl_context() returns event_trigger language plpgsql"
            " as 'begin end'"
        )
    with pytest.raises(SourceError, match=r"ddl_context.* belongs to role"):
        install(config_of(source))
    source.execute("drop function pgrepl.ddl_context()")
    install(config_of(source))
    assert not source.value(f"select has_schema_privilege('{user}', 'pgrepl', 'create')")


def test_type_of_the_users_own_that_is_called_text_does_not_disturb(captured, user):
    with captured.connect(user=user) as session:
        session.execute("create type mine.text as enum ('a')")
        session.execute("set search_path = mine, pg_catalog")
        session.execute("create table t (id int)")
    assert log(captured, "tag, invoker")[-1] == ("CREATE TABLE", user)


def test_owner_of_the_capture_may_change(captured):
    name = f"{captured.name}_dba"
    captured.execute(f"create role {name} superuser")
    captured.execute(f"alter function pgrepl.ddl_capture() owner to {name}")
    captured.execute(f"alter table pgrepl.ddl_log owner to {name}")
    captured.execute("create table t (id int)")
    captured.execute(f"reassign owned by {name} to postgres", f"drop role {name}")
    captured.execute("drop table t")
    assert [tag for _, tag in log(captured)][-1] == "DROP TABLE"


def test_publication_of_all_tables_does_not_stand_in_the_way_of_pruning(captured):
    captured.execute("create publication p for all tables", "create table a ()")
    captured.execute("update pgrepl.ddl_log set stmt_at = now() - interval '8 days'")
    assert captured.value("select pgrepl.prune()") == 2
