"""Work on the target side by side."""

from __future__ import annotations

import threading

import psycopg
import pytest

from pgrepl.basebackup.parallel_sessions import run_in_sessions
from pgrepl.config.dsn import Side

TOO_LONG_S = 600


def test_every_item_is_done_once_by_no_more_sessions_than_jobs(target):
    done = []

    def work(connection, item):
        ((pid,),) = connection.execute("select pg_backend_pid()").fetchall()
        done.append((item, pid))

    run_in_sessions(target.endpoint(Side.TARGET), range(50), work, 3)
    assert sorted(item for item, _ in done) == list(range(50))
    assert len({pid for _, pid in done}) <= 3


def test_one_lane_keeps_the_order(target):
    done = []
    run_in_sessions(target.endpoint(Side.TARGET), "bca", lambda _, item: done.append(item), 1)
    assert done == ["b", "c", "a"]


def test_nothing_to_do_needs_no_server(target):
    unreachable = target.endpoint(Side.TARGET, host="/nonexistent")
    run_in_sessions(unreachable, [], lambda *_: None, 4)


def test_an_error_ends_what_runs_and_lets_nothing_begin(target):
    is_asleep = threading.Event()
    begun = []

    def work(connection, item):
        begun.append(item)
        if item == "fails":
            is_asleep.wait(TOO_LONG_S)
            raise KeyError(item)
        is_asleep.set()
        sleep_until_cancelled(connection)

    with pytest.raises(KeyError, match="fails"):
        run_in_sessions(
            target.endpoint(Side.TARGET), ["sleeps", "fails", "never", "begins"], work, 2
        )
    assert sorted(begun) == ["fails", "sleeps"]


def test_a_statement_sent_after_the_request_to_cancel_it_ends_too(target, monkeypatch):
    is_cancelled = threading.Event()
    cancel = psycopg.Connection.cancel_safe

    def cancel_and_tell(connection, **options):
        cancel(connection, **options)
        is_cancelled.set()

    def work(connection, item):
        if item == "fails":
            raise KeyError(item)
        is_cancelled.wait(TOO_LONG_S)
        sleep_until_cancelled(connection)

    monkeypatch.setattr(psycopg.Connection, "cancel_safe", cancel_and_tell)
    with pytest.raises(KeyError, match="fails"):
        run_in_sessions(target.endpoint(Side.TARGET), ["is late", "fails"], work, 2)


def sleep_until_cancelled(connection):
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("select pg_sleep(%s)", (TOO_LONG_S,))


def test_an_index_error_of_the_work_is_an_error(target):
    with pytest.raises(IndexError):
        run_in_sessions(target.endpoint(Side.TARGET), [[]], lambda _, item: item[0], 2)
