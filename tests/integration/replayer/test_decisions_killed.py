"""Killed while a decision is carried out, a person decides again, or replay goes on."""

from __future__ import annotations

from contextlib import closing

import pytest

from pgrepl.ddl_capture import Applier, decide, install
from pgrepl.errors import DdlStopped
from pgrepl.replayer.parked.parked_tables import find_parked, skip_changes
from pgrepl.replayer.parked.work_off import retry_table
from pgrepl.replayer.session import open_session
from tests.support.running.backlog import control, die_at
from tests.support.running.pipeline import ALONE, Pipeline


@pytest.fixture
def parked(source, target) -> Pipeline:
    """Return a source of which a table is parked: the target lacks its column."""
    source.execute("create table a (id int primary key, v text)", "insert into a values (1, 'old')")
    made = Pipeline(source, target)
    made.copy()
    target.execute(f"alter table {made.schema()}.a rename v to w")
    source.execute("insert into a values (2, 'new')", "update a set v = 'new' where id = 1")
    made.receive()
    assert list(made.replay(ALONE).parked) == [("public", "a")]
    return made


def waiting(pipeline):
    return pipeline.target.value("select count(*) from replication.parked_message")


@pytest.mark.parametrize("place", ["parked.before_skip_commit", "parked.skipped"])
def test_changes_are_given_up_whole_or_not_at_all(parked, place):
    def skip() -> None:
        with control(parked) as connection:
            table = find_parked(connection, parked.source.name, "public.a")
            skip_changes(connection, parked.config.target.endpoint, table, None)

    die_at(place, skip)
    is_done = place == "parked.skipped"
    marked = "select resync_reason is not null from replication.source_table"
    history = "select count(*) from replication.parked_history where action = 'skip'"
    assert (waiting(parked) == 0) == is_done
    assert parked.target.rows(marked) == [(is_done,)]
    assert parked.target.value(history) == is_done
    skip()
    assert (waiting(parked), parked.target.rows(marked)) == (0, [(True,)])
    # Given up once, however often that was tried.
    assert parked.target.value(history) == 1


@pytest.mark.parametrize("place", ["replayer.before_work_off_commit", "parked.retried"])
def test_what_waited_is_applied_once(parked, place):
    def retry() -> None:
        with closing(open_session(parked.config.target.endpoint, ALONE)) as connection:
            table = find_parked(connection, parked.source.name, "public.a")
            retry_table(connection, parked.config, table, Applier(parked.config), ALONE)

    parked.target.execute(f"alter table {parked.schema()}.a rename w to v")
    die_at(place, retry)
    if place == "replayer.before_work_off_commit":
        assert parked.differences() == ["a"]
        retry()
    assert (parked.parked(), waiting(parked), parked.differences()) == ([], 0, [])
    parked.source.execute("insert into a values (3, 'after')")
    parked.apply(ALONE)
    assert parked.differences() == []


DECISIONS = {
    "retry": None,
    "edit": "alter table {0}.a alter v type bigint, alter v set default 7",
    "skip": None,
}


@pytest.mark.parametrize("kind", DECISIONS)
def test_decision_about_ddl_is_carried_out_once(source, target, kind):
    source.execute("create schema app; create table app.a (id int primary key, v int)")
    pipeline = Pipeline(source, target)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    schema = pipeline.schema("app")
    target.execute(f"create view public.own as select v from {schema}.a")
    source.execute("alter table app.a alter v type bigint", "insert into app.a values (1, 1)")
    pipeline.receive()
    assert list(pipeline.replay(ALONE).parked) == [("app", "a")]
    target.execute("drop view public.own")
    edited = DECISIONS[kind]

    def settle() -> None:
        with control(pipeline) as connection:
            text = None if edited is None else edited.format(schema)
            decide(connection, source.name, kind, edited=text)

    die_at("ddl.decided", settle)
    assert target.rows("select decision from replication.ddl_pending") == [(kind,)]
    die_at("replayer.before_work_off_commit", lambda: pipeline.replay(ALONE))
    assert target.value(f"select count(*) from {schema}.a") == 0
    die_at("ddl.settled", lambda: pipeline.replay(ALONE))
    result = pipeline.replay(ALONE)
    assert (result.error, result.parked, result.waiting_ddl) == (None, [], 0)
    kept = "select format_type(atttypid, -1) from pg_attribute where attname = 'v'"
    is_bigint = target.value(f"{kept} and attrelid = '{schema}.a'::regclass") == "bigint"
    assert is_bigint == (kind != "skip")
    assert (
        target.value("select count(*) from replication.ddl_history where tag = 'ALTER TABLE'") == 1
    )
    source.execute("insert into app.a values (2, 2)")
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []


def test_ddl_that_ends_replay_waits_once(source, target):
    source.execute("create schema app; create table app.a (id int primary key, v int)")
    pipeline = Pipeline(source, target, ddl_on_error="stop")
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    target.execute(f"create view public.own as select v from {pipeline.schema('app')}.a")
    source.execute("alter table app.a alter v type bigint", "insert into app.a values (1, 1)")
    pipeline.receive()
    die_at("ddl.stop_recorded", lambda: pipeline.replay(ALONE))
    tries = "select tag from replication.ddl_pending"
    assert target.rows(tries) == [("ALTER TABLE",)]
    assert isinstance(pipeline.replay(ALONE).error, DdlStopped)
    assert target.rows(tries) == [("ALTER TABLE",)]
    target.execute("drop view public.own")
    with control(pipeline) as connection:
        decide(connection, source.name, "retry")
    assert pipeline.replay(ALONE).error is None
    assert target.rows(tries) == []
    assert pipeline.differences("app") == []
