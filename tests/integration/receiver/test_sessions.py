"""How many sessions a receiver opens, and that questions in one are as good as in many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pgrepl.config.file import load_config
from pgrepl.errors import SourceError
from pgrepl.postgres.connect import Connection
from pgrepl.receiver.postgres import source_session
from pgrepl.receiver.postgres.source_session import SourceSession
from tests.support.observing.sessions import count_sessions
from tests.support.program import run_pgrepl
from tests.support.running.streaming import Streaming
from tests.support.waiting import wait_until


@pytest.fixture
def session(streaming: Streaming) -> Iterator[SourceSession]:
    config = load_config(streaming.config).source(streaming.name)
    with closing(SourceSession(config)) as session:
        yield session


def backend(connection: Connection) -> int:
    return connection.info.backend_pid


def test_receiving_once_asks_source_in_one_session_and_target_in_two(streaming):
    # Of the source there is another one, which streams: the server does not count those.
    streaming.receive_once()
    streaming.source.execute("insert into t values (1, 'a')")
    before = count_sessions(streaming.source), count_sessions(streaming.target)
    streaming.receive_once()
    after = count_sessions(streaming.source), count_sessions(streaming.target)
    assert (after[0] - before[0], after[1] - before[1]) == (1, 2)
    assert [line["action"] for line in streaming.lines()] == ["I"]


def test_replaying_once_with_nothing_to_do_takes_a_session_and_those_of_housekeeping(streaming):
    before = count_sessions(streaming.source), count_sessions(streaming.target)
    done = run_pgrepl("replay", "--once", "--config", streaming.config)
    assert done.returncode == 0, done.stderr
    after = count_sessions(streaming.source), count_sessions(streaming.target)
    assert (after[0] - before[0], after[1] - before[1]) == (1, 2)


def test_a_receiver_that_streams_on_keeps_no_session_for_questions(streaming):
    query = (
        "select backend_type from pg_stat_activity"
        f" where datname = '{streaming.source.name}' and application_name = 'pgrepl-receive'"
    )
    with streaming.start() as receiver:
        receiver.wait_streaming()
        wait_until(lambda: streaming.source.rows(query) == [("walsender",)])


def test_questions_have_a_session_each_unless_it_is_kept(session):
    assert session.ask("a", backend) != session.ask("b", backend)
    session.keep()
    assert session.ask("a", backend) == session.ask("b", backend)
    session.close()
    assert session.ask("a", backend) != session.ask("b", backend)


def test_a_session_that_was_ended_while_idle_is_replaced(session, streaming):
    session.keep()
    first = session.ask("a", backend)
    streaming.source.execute(f"select pg_terminate_backend({first}, 10000)")
    assert session.ask("b", lambda own: own.execute("select 1").fetchall()) == [(1,)]
    assert session.ask("c", backend) != first


def test_a_session_that_was_idle_for_long_is_replaced(session, monkeypatch):
    monkeypatch.setattr(source_session, "_IDLE_S", -1.0)
    session.keep()
    assert session.ask("a", backend) != session.ask("b", backend)


def test_what_the_source_refuses_is_asked_once(session):
    asked = []

    def ask(connection: Connection) -> None:
        asked.append(backend(connection))
        connection.execute("select from nothing_of_this_name")

    session.keep()
    kept = session.ask("cannot look", backend)
    with pytest.raises(SourceError, match=r"cannot look: relation .* does not exist"):
        session.ask("cannot look", ask)
    assert asked == [kept]
    assert session.ask("cannot look", backend) != kept
