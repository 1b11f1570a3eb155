"""What happens to one source does not happen to another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pgrepl.errors import SpoolError
from pgrepl.replayer import Replayer, ReplaySettings, SourceResult
from tests.support.running.pipeline import NoDdl, Pipeline

#: Few changes go without Spark.
QUICK = ReplaySettings(backoff_s=0.01, backoff_limit_s=0.05, lock_timeout_s=0.3, table_lock_s=0.05)

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


def replay(one: Pipeline, other: Pipeline, **options: Any) -> dict[str, SourceResult]:
    config = one.config
    config = replace(
        config,
        sources={**config.sources, **other.config.sources},
        replay=replace(config.replay, **options),
    )
    return {result.source: result for result in Replayer(config, NoDdl(), QUICK).run(once=True)}


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
