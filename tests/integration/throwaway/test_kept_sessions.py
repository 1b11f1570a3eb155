"""What a test leaves in its session reaches nobody else, though the session stays open."""

from __future__ import annotations

import psycopg
import pytest

PID = "select pg_backend_pid()"


def test_session_is_kept_and_as_new(source):
    before = source.value(PID)
    source.execute(
        "set work_mem = '1MB'",
        "set role pg_monitor",
        "create temp table t (id int)",
        "select pg_advisory_lock(4711)",
        "listen something",
    )
    assert source.rows(
        "select pg_backend_pid(), current_setting('work_mem'), current_user, to_regclass('t'),"
        " (select count(*) from pg_locks where locktype = 'advisory' and objid = 4711),"
        " (select count(*) from pg_listening_channels())"
    ) == [(before, "4MB", "postgres", None, 0, 0)]


def test_transaction_that_was_left_open_is_rolled_back(source):
    source.execute("create table t (id int)")
    source.execute("begin", "insert into t values (1)")
    assert source.value("select count(*) from t") == 0


def test_session_that_failed_is_replaced(source):
    before = source.value(PID)
    with pytest.raises(psycopg.errors.UndefinedTable):
        source.execute("select from nowhere")
    assert source.value(PID) != before


def test_session_that_its_server_ended_is_replaced(source):
    before = source.value(PID)
    with source.connect() as other:
        other.execute("select pg_terminate_backend(%s, 10000)", (before,))
    assert source.value(PID) != before


def test_what_a_database_sets_holds_for_the_next_question(source):
    assert source.value("show datestyle") == "ISO, MDY"
    source.execute(f"alter database {source.name} set datestyle = 'German'")
    assert source.value("show datestyle") == "German, DMY"


def test_database_can_be_copied_while_its_session_is_kept(source, make_database):
    source.execute("create table t (id int)", "insert into t values (7)")
    copy = make_database(source.cluster, prefix="copy", template=source.name)
    assert copy.value("select id from t") == 7
