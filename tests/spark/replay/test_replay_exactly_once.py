"""Kill it anywhere, start it again: every change counts once."""

from __future__ import annotations

from contextlib import closing

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.ddl_capture import Applier
from pgrepl.errors import TargetUnavailable
from pgrepl.replayer import ReplaySettings
from pgrepl.replayer.batch_commit import merge_batch, staging_prefix
from pgrepl.replayer.parked.parked_tables import find_parked
from pgrepl.replayer.parked.work_off import retry_table
from pgrepl.replayer.session import open_session
from pgrepl.replayer.shard.shard_result import ShardResult
from pgrepl.replayer.shard.task import ShardTask, run_shard
from pgrepl.replayer.spark_job import ShardJobs
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from pgrepl.store.progress.shard_progress import Fenced, finish
from tests.support.running.backlog import control, die_at, plan, run_serial
from tests.support.running.copying import Recorder
from tests.support.running.pipeline import ALONE, QUICK, NoDdl, Pipeline

#: A few parts of the spool make a chunk, and the next is read while one is applied.
SMALL = ReplaySettings(step_bytes=1, chunk_bytes=4000)


def prefix(source_id: int) -> str:
    return f"{staging_prefix(source_id)}run"


def finish_and_compare(backlog, **options):
    result = backlog.replay(**options)
    assert result.error is None
    assert result.parked == []
    assert backlog.differences() == []
    assert backlog.spool_count() == 0
    staging = "select count(*) from pg_class where relname like 'stage\\_%' and relkind = 'r'"
    assert backlog.target.value(staging) == 0
    return result


def merge(backlog, work, results):
    with open_session(backlog.config.target.endpoint, QUICK) as connection:
        return merge_batch(
            *(connection, work.source, work.batch, results),
            on_error="park",
            on_conflict="error",
            settings=QUICK,
        )


def copy_again(pipeline):
    config = pipeline.config
    options = ResyncOptions(tables=TableSelection.of(["public.t"]), way="whole")
    resync_tables(config, config.sources[pipeline.source.name], options, Recorder())
    with closing(open_session(config.target.endpoint, QUICK)) as connection:
        table = find_parked(connection, pipeline.source.name, "public.t")
        retry_table(connection, config, table, Applier(config), QUICK)


def apply_up_to_truncate(backlog):
    work, tasks = plan(backlog)
    for task in tasks:
        run_shard(task)
    with control(backlog) as connection:
        finish(connection, work.source.source_id, work.batch.to_seq, work.batch.last_lsn)
    work, _ = plan(backlog)
    assert work.batch.kind == "serial"
    return work


@pytest.mark.parametrize("place", ["fenced", "chunk_applied", "before_commit", "after_commit"])
def test_task_killed_anywhere(backlog, place):
    _, tasks = plan(backlog, SMALL)
    assert len(tasks) == 4
    run_shard(tasks[0])
    die_at(f"replayer.{place}", lambda: run_shard(tasks[1]))
    finish_and_compare(backlog)


def sessions(backlog):
    return backlog.target.rows(
        "select pid from pg_stat_activity where application_name = 'pgrepl-replay'"
        " and datname = current_database()"
    )


def test_tasks_of_a_process_share_a_session(backlog):
    _, tasks = plan(backlog)
    run_shard(tasks[0])
    (kept,) = sessions(backlog)
    run_shard(tasks[1])
    assert sessions(backlog) == [kept]
    finish_and_compare(backlog)


def test_session_that_the_target_ended_between_two_tasks_is_opened_anew(backlog):
    _, tasks = plan(backlog)
    run_shard(tasks[0])
    ((pid,),) = sessions(backlog)
    backlog.target.execute(f"select pg_terminate_backend({pid}, 10000)")
    assert isinstance(run_shard(tasks[1]), ShardResult)
    assert sessions(backlog) != [(pid,)]
    finish_and_compare(backlog)


def test_session_of_a_task_that_failed_is_not_used_again(backlog):
    _, tasks = plan(backlog)
    run_shard(tasks[0])
    (kept,) = sessions(backlog)
    # Done already: it finds itself fenced.
    again = run_shard(tasks[0])
    assert isinstance(again, ShardResult)
    assert again.is_superseded
    run_shard(tasks[1])
    assert kept not in sessions(backlog)
    finish_and_compare(backlog)


@pytest.mark.parametrize("place", ["before_commit", "after_commit"])
def test_task_that_stages_killed_anywhere(backlog, place):
    _, tasks = plan(backlog, SMALL, prefix)
    run_shard(tasks[0])
    die_at(f"replayer.{place}", lambda: run_shard(tasks[1]))
    finish_and_compare(backlog, consistency="batch")


def test_driver_killed_when_all_tasks_are_done(backlog):
    _, tasks = plan(backlog)
    for task in tasks:
        run_shard(task)
    result = finish_and_compare(backlog)
    assert result.applied > tasks[0].to_lsn


def test_driver_killed_before_the_end_of_the_last_batch(backlog):
    backlog.target.execute(
        "delete from replication.raw_messages where seq > 6",
        "update replication.receive_progress set last_seq = 6, received_lsn = (select"
        " max(last_lsn) from replication.raw_messages)",
    )
    work, tasks = plan(backlog)
    assert work.batch.to_seq == 6
    for task in tasks:
        run_shard(task)
    result = backlog.replay()
    assert result.batch_count == 0
    assert backlog.spool_count() == 0
    published = backlog.target.value("select max(lsn)::text from replication.progress")
    assert published == str(work.batch.last_lsn)


@pytest.mark.parametrize("place", ["before_merge_commit", "after_merge_commit"])
def test_driver_killed_while_it_merges(backlog, place):
    work, tasks = plan(backlog, SMALL, prefix)
    results = [run_shard(task) for task in tasks]
    die_at(f"replayer.{place}", lambda: merge(backlog, work, results))
    finish_and_compare(backlog, consistency="batch")


@pytest.mark.parametrize("place", ["before_serial_commit", "after_serial_commit"])
def test_driver_killed_in_a_transaction_with_truncate(backlog, place):
    work = apply_up_to_truncate(backlog)
    die_at(f"replayer.{place}", lambda: run_serial(backlog, work, NoDdl()))
    finish_and_compare(backlog)


def test_task_runs_twice_and_counts_once(backlog):
    _, tasks = plan(backlog)
    first, second = run_shard(tasks[0]), run_shard(tasks[0])
    assert isinstance(first, ShardResult)
    assert isinstance(second, ShardResult)
    assert (first.is_superseded, second.is_superseded) == (False, True)
    finish_and_compare(backlog)


def test_stale_task_changes_nothing(backlog):
    _, tasks = plan(backlog)
    finish_and_compare(backlog)
    for task in tasks:
        result = run_shard(task)
        assert isinstance(result, ShardResult)
        assert result.is_superseded
    assert backlog.differences() == []


def test_staging_task_that_spark_repeats_parks_nothing(backlog):
    work, tasks = plan(backlog, SMALL, prefix)
    for task in tasks:
        run_shard(task)
    results = [run_shard(task) for task in tasks]
    assert merge(backlog, work, results) == []
    assert backlog.parked() == []
    finish_and_compare(backlog, consistency="batch")


def test_merge_that_comes_too_late_changes_nothing(backlog):
    work, tasks = plan(backlog, QUICK, prefix)
    results = [run_shard(task) for task in tasks]
    finish_and_compare(backlog)
    with pytest.raises(Fenced):
        merge(backlog, work, results)
    assert backlog.differences() == []


def test_table_that_goes_on_after_others_were_staged_has_what_the_batch_has_for_it(backlog):
    backlog.target.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, kind, reason)"
        " select source_id, 'public', 'a', 'paused', 'a test' from replication.source"
    )
    work, tasks = plan(backlog, SMALL, prefix)
    results = [run_shard(task) for task in tasks]
    backlog.target.execute("delete from replication.parked_table")
    assert merge(backlog, work, results) == []
    finish_and_compare(backlog, consistency="batch")


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_table_that_is_copied_again_after_it_was_staged_keeps_the_newer_rows(
    source, target, plugin
):
    source.execute(
        "create table t (id int primary key, n int)",
        "insert into t select g, 0 from generate_series(1, 5) g",
    )
    pipeline = Pipeline(source, target, {"consistency": "batch"}, plugin=plugin)
    pipeline.copy()
    source.execute("update t set n = 1 where id < 4")
    pipeline.receive()
    work, tasks = plan(pipeline, QUICK, prefix)
    results = [run_shard(task) for task in tasks]
    source.execute("update t set n = 2 where id < 3")
    copy_again(pipeline)
    assert pipeline.differences() == []
    assert merge(pipeline, work, results) == []
    pipeline.apply(ALONE)
    assert pipeline.differences() == []


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_table_without_a_key_whose_copy_has_all_of_a_batch_is_not_parked(source, target, plugin):
    source.execute("create table t (n int); alter table t replica identity full")
    pipeline = Pipeline(source, target, {"consistency": "batch"}, plugin=plugin)
    pipeline.copy()
    source.execute("insert into t values (1), (1)", "update t set n = 2")
    pipeline.receive()
    copy_again(pipeline)
    pipeline.apply(ALONE)
    assert pipeline.differences() == []


def test_transaction_with_truncate_that_comes_too_late_changes_nothing(backlog):
    work = apply_up_to_truncate(backlog)
    finish_and_compare(backlog)
    with pytest.raises(Fenced):
        run_serial(backlog, work, NoDdl())
    assert backlog.differences() == []


@pytest.mark.parametrize("shards", [1, 3, 64])
def test_number_of_shards_changes_after_a_kill_between_them(backlog, shards):
    _, tasks = plan(backlog, ReplaySettings(batch_segments=4))
    run_shard(tasks[0])
    run_shard(tasks[2])
    finish_and_compare(backlog, shards=shards)
    rows = backlog.target.rows("select distinct shard_count from replication.shard_progress")
    assert rows == [(shards,)]


def test_number_of_shards_changes_once_whoever_is_killed_then(backlog):
    plan(backlog)
    die_at("replayer.shards_changed", lambda: backlog.replay(ALONE, shards=3))
    counts = "select distinct shard_count from replication.shard_progress"
    assert backlog.target.rows(counts) == [(3,)]
    finish_and_compare(backlog, shards=5)
    assert backlog.target.rows(counts) == [(5,)]


def test_shards_apart_come_together_under_batch_consistency_too(backlog):
    _, tasks = plan(backlog, ReplaySettings(batch_segments=4))
    run_shard(tasks[0])
    finish_and_compare(backlog, consistency="batch")


def test_worker_that_dies_is_an_error_that_passes(backlog, monkeypatch):
    runs = []
    real = ShardJobs.run

    def run(jobs, tasks, count, **how):
        # The first job runs in workers that die at once; nothing of it is committed.
        runs.append(len(tasks))
        if len(runs) == 1:
            context = jobs._spark.session().sparkContext
            with pytest.raises(Exception, match="Python worker"):
                context.parallelize([0], 1).map(lambda _: __import__("os")._exit(1)).collect()
        return real(jobs, tasks, count, **how)

    monkeypatch.setattr(ShardJobs, "run", run)
    finish_and_compare(backlog)
    assert len(runs) > 1


def test_replayer_meets_a_fence_and_plans_anew(backlog, monkeypatch):
    real = ShardJobs.run
    seen: list[ShardTask] = []

    def run(jobs, tasks, count, **how):
        if not seen:
            # A zombie of an earlier driver commits one shard in the meantime.
            seen.extend(tasks)
            _, others = plan(backlog, ReplaySettings(batch_segments=2))
            run_shard(others[0])
        return real(jobs, tasks, count, **how)

    monkeypatch.setattr(ShardJobs, "run", run)
    finish_and_compare(backlog, consistency="batch")
    assert seen


def test_batch_that_is_too_much_at_once_goes_in_pieces(backlog, monkeypatch):
    real = ShardJobs.run
    tried = []

    def run(jobs, tasks, count, **how):
        tried.append(tasks[0].to_seq - tasks[0].from_seq)
        if tried[-1] > 1:
            # As of a server that has no room for all these locks: one shard did it, the others not.
            return [
                *real(jobs, tasks[:1], count, **how),
                *(TargetUnavailable("too much") for _ in tasks[1:]),
            ]
        return real(jobs, tasks, count, **how)

    monkeypatch.setattr(ShardJobs, "run", run)
    finish_and_compare(backlog)
    assert tried[:3] == [6, 3, 1]
