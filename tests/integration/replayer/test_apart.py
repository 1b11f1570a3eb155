"""What happens to one source does not happen to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pgrepl.background import BackgroundCall
from pgrepl.config.model import Config
from pgrepl.errors import SpoolError
from pgrepl.replayer import Replayer, ReplaySettings, SourceResult
from tests.support.running.pipeline import NoDdl, Pipeline
from tests.support.waiting import wait_until

#: Few changes go without Spark.
QUICK = ReplaySettings(backoff_s=0.01, backoff_limit_s=0.05, lock_timeout_s=0.3, table_lock_s=0.05)
#: Whoever is in the way stays there; the others have several batches.
PATIENT = replace(QUICK, lock_timeout_s=600, table_lock_s=600, batch_segments=1)

TABLE = "create table t (id int primary key, v text)"


@pytest.fixture
def sources(source, source_cluster, target, make_database) -> tuple[Pipeline, Pipeline]:
    """Return two sources of one target, with a change each in the spool."""
    other = make_database(source_cluster, prefix="other")
    made = Pipeline(source, target), Pipeline(other, target)
    for pipeline in made:
        pipeline.source.execute(TABLE)
        pipeline.copy()
        pipeline.source.execute("insert into t values (1, 'gold')")
        pipeline.receive()
    return made


def both(one: Pipeline, other: Pipeline, **options: Any) -> Config:
    config = one.config
    return replace(
        config,
        sources={**config.sources, **other.config.sources},
        replay=replace(config.replay, **options),
    )


def replay(
    one: Pipeline, other: Pipeline, settings: ReplaySettings = QUICK, **options: Any
) -> dict[str, SourceResult]:
    config = both(one, other, **options)
    return {result.source: result for result in Replayer(config, NoDdl(), settings).run(once=True)}


@contextmanager
def replaying(config: Config, settings: ReplaySettings) -> Iterator[None]:
    """Replay what is there, a segment at a time, while the block runs and until all is applied."""
    call = BackgroundCall(partial(Replayer(config, NoDdl(), settings).run, once=True))
    yield
    assert [result.error for result in call.result()] == [None, None]


def add_segments(pipeline: Pipeline) -> None:
    for number in (2, 3, 4):
        pipeline.source.execute(f"insert into t values ({number}, 'x')")
        pipeline.receive()


def waits(pipeline: Pipeline) -> bool:
    """Whether something of a source is not applied; its tables may be locked."""
    return bool(
        pipeline.target.value(
            "select exists (select from replication.raw_messages join replication.source"
            f" using (source_id) where name = '{pipeline.source.name}')"
        )
    )


def test_serial_transaction_that_takes_long_holds_up_nobody(sources):
    one, other = sources
    one.source.execute("truncate t", "insert into t values (2, 'after')")
    one.receive()
    add_segments(other)
    with one.target.connect() as blocker:
        blocker.execute("begin")
        blocker.execute(f"lock table {one.schema()}.t".encode())
        # It waits for the lock as long as it takes.
        patient = replace(PATIENT, truncate_lock_s=600)
        with replaying(both(one, other, consistency="batch"), patient):
            wait_until(lambda: not waits(other))
            assert waits(one)
            blocker.execute("rollback")
    assert one.differences() == other.differences() == []


@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_table_whose_owner_makes_changes_slow_holds_up_nobody(sources, consistency):
    one, other = sources
    one.target.execute(
        f"create function {one.schema()}.dawdle() returns trigger language plpgsql as"
        " $$begin perform pg_advisory_xact_lock_shared(4711); return new; end$$",
        f"create trigger dawdle before insert on {one.schema()}.t for each row"
        f" execute function {one.schema()}.dawdle()",
        f"alter table {one.schema()}.t enable always trigger dawdle",
    )
    add_segments(other)
    with one.target.connect() as owner:
        owner.execute("select pg_advisory_lock(4711)")
        patient = replace(PATIENT, shared_s=0.1)
        with replaying(both(one, other, consistency=consistency), patient):
            wait_until(lambda: not waits(other))
            assert waits(one)
            owner.execute("select pg_advisory_unlock(4711)")
    assert one.differences() == other.differences() == []


def test_huge_batch_holds_up_nobody(sources):
    one, other = sources
    one.source.execute("insert into t select g, 'many' from generate_series(2, 50) g")
    one.receive()
    add_segments(other)
    with one.target.connect() as blocker:
        blocker.execute("begin")
        blocker.execute(f"lock table {one.schema()}.t".encode())
        patient = replace(PATIENT, shared_changes=10)
        with replaying(both(one, other), patient):
            wait_until(lambda: not waits(other))
            assert waits(one)
            blocker.execute("rollback")
    assert one.differences() == other.differences() == []


def test_once_ends_when_the_slow_one_has_too(sources):
    one, other = sources
    one.source.execute("truncate t", "insert into t values (2, 'after')")
    one.receive()
    results = replay(one, other)
    assert [result.error for result in results.values()] == [None, None]
    assert one.differences() == other.differences() == []


def test_corrupted_row_of_one_source_stops_that_one_alone(sources):
    one, other = sources
    one.target.execute(
        "update replication.raw_messages set payload ="
        " overlay(payload placing 'Sold'::bytea from position('gold'::bytea in payload))"
        f" from replication.source s where s.name = '{one.source.name}'"
        " and s.source_id = raw_messages.source_id"
    )
    results = replay(one, other)
    assert isinstance(results[one.source.name].error, SpoolError)
    assert results[other.source.name].error is None
    assert other.differences() == []
    assert one.differences() == ["t"]


@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_lock_on_a_table_of_one_source_holds_up_that_table_alone(sources, consistency):
    one, other = sources
    with one.target.connect() as blocker:
        blocker.execute("begin")
        blocker.execute(f"lock table {one.schema()}.t".encode())
        results = replay(one, other, consistency=consistency)
        assert results[other.source.name].error is None
        assert other.differences() == []
        # Under batch consistency the source waits as a whole.
        assert (results[one.source.name].error is None) == (consistency == "shard")
    results = replay(one, other, consistency=consistency)
    assert [result.error for result in results.values()] == [None, None]
    assert one.differences() == []


def test_batch_consistency_waits_for_a_locked_table_as_long_as_for_others_of_the_batch(sources):
    one, other = sources
    with one.target.connect() as blocker:
        blocker.execute("begin")
        blocker.execute(f"lock table {one.schema()}.t".encode())
        # Other locks may be waited for as long as it takes.
        patient = replace(QUICK, lock_timeout_s=600)
        results = replay(one, other, patient, consistency="batch")
        error = results[one.source.name].error
        assert error is not None
        assert "lock timeout" in error.message
        assert other.differences() == []
