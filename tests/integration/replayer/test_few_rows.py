"""Changes of the same rows again and again are folded together, however much was read of them."""

from __future__ import annotations

import pytest

from pgrepl.replayer import ReplaySettings
from pgrepl.replayer.shard.shard_result import ShardResult
from pgrepl.replayer.shard.task import run_shard
from tests.support.database import Database
from tests.support.running.backlog import plan
from tests.support.running.pipeline import Pipeline

HOT = ("public", "hot")
ROWS, ROUNDS = 5, 6
#: Each segment would be a chunk of its own.
SMALL = ReplaySettings(step_bytes=2000, chunk_bytes=1 << 20)


@pytest.fixture(params=["wal2json", "pgoutput"])
def pipeline(request, source_cluster, target):
    source = Database(source_cluster, f"few_rows_{request.param}")
    source.cluster.create_database(source.name)
    source.execute(
        "create table hot (id int primary key, n int not null, note text)",
        f"insert into hot select g, 0, 'a note' from generate_series(1, {ROWS}) g",
    )
    made = Pipeline(source, target, plugin=request.param)
    made.copy()
    yield made
    source.drop()


def applied(pipeline, settings=SMALL):
    _, (task,) = plan(pipeline, settings)
    result = run_shard(task)
    assert isinstance(result, ShardResult)
    assert pipeline.differences() == []
    return result


def update(pipeline, times):
    for _ in range(times):
        pipeline.source.execute("update hot set n = n + 1, note = repeat('x', n)")
        pipeline.receive()


def test_each_row_is_written_once_for_all_of_its_changes(pipeline):
    update(pipeline, ROUNDS)
    result = applied(pipeline)
    assert result.change_counts == {HOT: ROWS * ROUNDS}
    assert result.left_counts == {HOT: ROWS}


def test_what_is_read_at_once_is_bounded(pipeline):
    update(pipeline, ROUNDS)
    result = applied(pipeline, ReplaySettings(step_bytes=1, chunk_bytes=1))
    assert result.left_counts == {HOT: ROWS * ROUNDS}


def test_rows_that_come_and_go_are_not_taken_for_changed_ones(pipeline):
    update(pipeline, 2)
    pipeline.source.execute("delete from hot where id = 2", "update hot set id = 20 where id = 3")
    pipeline.receive()
    pipeline.source.execute("insert into hot values (2, 7, 'again'), (3, 8, 'too')")
    update(pipeline, 2)
    assert applied(pipeline).change_counts == {HOT: 10 + 2 + 2 + 12}
