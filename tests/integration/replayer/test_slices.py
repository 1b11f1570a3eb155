"""A table with very many changes is applied by several sessions at once, and exactly."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from pgrepl.config.dsn import Side
from pgrepl.postgres.connect import connect
from pgrepl.replayer import ReplaySettings
from pgrepl.replayer.shard import helpers as helpers_of_tasks
from pgrepl.replayer.shard import together
from pgrepl.replayer.shard.shard_result import ShardResult
from pgrepl.replayer.shard.task import run_shard
from pgrepl.store.parked import follow_parking
from pgrepl.store.progress.applied_slices import (
    AppliedSlice,
    add_slice,
    current_transaction,
    join_transaction,
)
from tests.support.database import Database
from tests.support.running.backlog import control, die_at, plan
from tests.support.running.pipeline import Pipeline, clone

#: Few changes are many, in several chunks, and they go without Spark.
SLICED = ReplaySettings(
    slice_changes=1, step_bytes=1, chunk_bytes=4000, backoff_s=0.01, lock_timeout_s=2.0
)
NOTES = "select count(*) from replication.applied_slice"
COUNT = 4


@pytest.fixture(scope="module")
def prepared(source_cluster, target_cluster):
    """Changes of every kind on one table wait in several segments."""
    source, target = Database(source_cluster, "sliced"), Database(target_cluster, "sliced_target")
    for database in (source, target):
        database.cluster.create_database(database.name)
    source.execute(
        "create table big (id int primary key, n int not null, note text)",
        "insert into big select g, 0, 'old' from generate_series(1, 300) g",
    )
    pipeline = Pipeline(source, target, plugin="pgoutput")
    pipeline.copy()
    for number in range(4):
        source.execute(
            f"update big set n = {number} where id % 4 <> {number};"
            f"insert into big select g + {1000 * (number + 1)}, {number}, repeat('x', 40)"
            " from generate_series(1, 100) g;"
            f"delete from big where id % 30 = {number} or id = 1001 + {number}"
        )
        pipeline.receive()
    yield pipeline
    source.drop()
    target.drop()


@pytest.fixture(autouse=True)
def _no_memory(monkeypatch):
    """Tables that gave trouble in one test are tried in the next."""
    monkeypatch.setattr(helpers_of_tasks, "_whole_until", {})
    monkeypatch.setattr(together, "_apart_until", {})


@pytest.fixture
def big(prepared):
    target = clone(prepared.target, "sliced_clone")
    yield replace(prepared, target=target, options={})
    target.drop()


def the_task(pipeline, settings=SLICED):
    _, (task,) = plan(pipeline, settings)
    assert task.slice_count == COUNT
    return task


def finish_and_compare(pipeline, settings=SLICED):
    result = pipeline.replay(settings)
    assert (result.error, result.parked) == (None, [])
    assert pipeline.differences() == []
    assert pipeline.spool_count() == 0
    assert pipeline.target.value(NOTES) == 0


def helpers(pipeline):
    """Return how many sessions a task kept beside the two in which it reads and writes."""
    return (
        pipeline.target.value(
            "select count(*) from pg_stat_activity where application_name = 'pgrepl-replay'"
            " and datname = current_database()"
        )
        - 2
    )


def test_slices_are_applied_side_by_side_and_leave_no_note(big):
    assert isinstance(run_shard(the_task(big)), ShardResult)
    assert big.target.value(NOTES) == 0
    assert big.differences() == []
    assert helpers(big) == COUNT - 1
    finish_and_compare(big)


def test_few_changes_are_applied_in_one_session(big):
    run_shard(the_task(big, replace(SLICED, slice_changes=20_000)))
    assert helpers(big) == 0


@pytest.mark.parametrize("place", ["slices_applied", "slices_committed", "before_commit"])
def test_task_killed_anywhere_between_slices_and_shard(big, place):
    die_at(f"replayer.{place}", lambda: run_shard(the_task(big)))
    is_ahead = place != "slices_applied"
    assert big.target.value(NOTES) == (COUNT - 1 if is_ahead else 0)
    assert big.differences() == ["big"]
    finish_and_compare(big)


def test_slices_that_are_ahead_bind_the_next_batch_to_their_end(big):
    task = the_task(big)
    die_at("replayer.slices_committed", lambda: run_shard(task))
    work, (again,) = plan(big, ReplaySettings(batch_segments=1))
    assert (again.from_seq, again.to_seq) == (task.from_seq, task.to_seq)
    assert not work.is_even
    finish_and_compare(big)


def test_batch_consistency_after_a_crash_between_slices(big):
    die_at("replayer.slices_committed", lambda: run_shard(the_task(big)))
    big.options["consistency"] = "batch"
    finish_and_compare(big)


def test_slice_that_belongs_to_another_batch_fences_the_task(big):
    task = the_task(big)
    die_at("replayer.slices_committed", lambda: run_shard(task))
    big.target.execute("update replication.applied_slice set to_seq = to_seq + 1")
    result = run_shard(task)
    assert isinstance(result, ShardResult)
    assert result.is_superseded


def test_task_waits_for_the_slices_of_one_that_lost_its_own_session(big):
    """A slice that commits late is one that the next task knows of."""
    task = the_task(big)
    zombie = connect(big.target.endpoint(Side.TARGET), "test")
    with control(big) as main:
        main.execute("begin")
        number = current_transaction(main)
        zombie.execute("begin")
        assert join_transaction(zombie, task.source_id, task.shard, number)
        follow_parking(zombie, task.source_id)
        # Its main session is lost, and it does not know.
        main.execute("rollback")
    late = AppliedSlice("public", "big", 1, COUNT, task.to_seq)
    add_slice(zombie, task.source_id, task.shard, late, from_seq=task.from_seq)
    results = []
    twin = threading.Thread(target=lambda: results.append(run_shard(task)))
    twin.start()
    twin.join(0.5)
    assert twin.is_alive()
    zombie.execute("commit")
    zombie.close()
    twin.join()
    # The zombie recorded its slice and did nothing of it: exactly that is missing.
    assert isinstance(results[0], ShardResult)
    assert not results[0].is_superseded
    assert big.differences() == ["big"]
    assert big.target.value(NOTES) == 0


def test_session_that_comes_too_late_joins_nothing(big):
    task = the_task(big)
    with control(big) as main, control(big) as other:
        main.execute("begin")
        number = current_transaction(main)
        main.execute("rollback")
        other.execute("begin")
        assert not join_transaction(other, task.source_id, task.shard, number)


@pytest.mark.parametrize(
    "change",
    [
        "create unique index on {}.big (n, id)",
        "alter table {}.big add constraint e exclude using btree (id with =)",
    ],
    ids=["unique", "exclusion"],
)
def test_table_whose_rows_may_stand_in_one_anothers_way_is_not_sliced(big, change):
    big.target.execute(change.format(big.schema()))
    run_shard(the_task(big))
    assert helpers(big) == 0
    finish_and_compare(big)


def test_row_that_moves_to_another_key_in_a_later_chunk_puts_all_into_one_session(source, target):
    source.execute("create table big (id int primary key, n int not null, note text)")
    pipeline = Pipeline(source, target)
    pipeline.copy()
    source.execute("insert into big select g, 0, 'new' from generate_series(1001, 1100) g")
    pipeline.receive()
    source.execute("update big set id = id + 1000 where id between 1050 and 1060")
    pipeline.receive()
    run_shard(the_task(pipeline))
    assert helpers(pipeline) == 0
    finish_and_compare(pipeline)


def test_conflict_in_a_slice_parks_the_table_as_ever(big):
    big.target.execute(f"delete from {big.schema()}.big where id between 100 and 110")
    result = big.replay(SLICED)
    assert [table for table, _ in big.parked()] == ["big"]
    assert result.error is None
    assert big.target.value(f"select count(*) from {big.schema()}.big where id > 1000") == 0
    assert big.target.value(NOTES) == 0


def test_parked_when_slices_were_applied_it_is_marked_for_a_resync(big):
    die_at("replayer.slices_committed", lambda: run_shard(the_task(big)))
    big.target.execute(f"delete from {big.schema()}.big where id < 200")
    big.replay(SLICED)
    assert [table for table, _ in big.parked()] == ["big"]
    assert "a part of its changes" in str(
        big.target.value("select resync_reason from replication.source_table")
    )
    assert big.target.value(NOTES) == 0


def test_table_that_is_copied_again_has_nothing_of_its_slices(big):
    die_at("replayer.slices_committed", lambda: run_shard(the_task(big)))
    big.target.execute(
        "set session_replication_role = replica;"
        "update replication.source_table set start_lsn = '0/1'"
    )
    assert big.target.value(NOTES) == 0
