"""Whatever dies, and wherever it dies: nothing is missing and nothing is there twice."""

from __future__ import annotations

import random

import pytest

from pgrepl.throwaway import Cluster
from tests.support.running.streaming import Streaming
from tests.support.waiting import wait_until
from tests.support.workloads.counting import assert_exactly_once, await_more, load

POINTS = (
    "receiver.before_commit",
    "receiver.after_commit_before_feedback",
    "receiver.after_feedback",
)


@pytest.mark.parametrize("point", POINTS)
def test_receiver_that_dies_there_loses_and_repeats_nothing(streaming, point):
    for visit in (1, 2):
        with (
            load(streaming),
            streaming.start(env={"PGREPL_FAILPOINT": f"{point}:kill:{visit}"}) as receiver,
        ):
            wait_until(lambda: receiver.process.poll() is not None)
            assert receiver.process.returncode == -9
    assert_exactly_once(streaming)


def test_receiver_that_dies_inside_a_big_transaction_leaves_nothing_of_it(streaming):
    streaming.source.execute(
        "insert into t select g, repeat('x', 200) from generate_series(1, 40000) g"
    )
    with streaming.start(env={"PGREPL_FAILPOINT": "receiver.after_part:kill:2"}) as receiver:
        wait_until(lambda: receiver.process.poll() is not None)
        assert receiver.process.returncode == -9
    assert streaming.lines() == []
    assert_exactly_once(streaming)


def test_receiver_that_dies_when_its_patterns_are_taken_marks_what_it_passes_over(
    source, stream_from
):
    source.execute("create table a (id int primary key)", "create table b (id int primary key)")
    streaming = stream_from(source)
    streaming.write_config(exclude=["public.b"])
    with streaming.start(env={"PGREPL_FAILPOINT": "receiver.patterns_taken:kill"}) as receiver:
        wait_until(lambda: receiver.process.poll() is not None)
        assert receiver.process.returncode == -9
    marked = "select table_name::text from replication.source_table where resync_reason is not null"
    assert streaming.target.rows(marked) == []
    with streaming.start() as receiver:
        receiver.wait_streaming()
        assert streaming.target.rows(marked) == [("b",)]


def test_receiver_killed_at_random_loses_and_repeats_nothing(streaming):
    chance = random.Random(4)
    with load(streaming) as done:
        for _ in range(5):
            with streaming.start() as receiver:
                receiver.wait_streaming()
                await_more(done, chance.randint(20, 150))
                receiver.kill()
    assert len(done) > 200
    assert_exactly_once(streaming)


def test_origin_that_is_not_honoured_would_be_noticed(streaming):
    """Prove that the check above can fail: begin again from where the slot began."""
    streaming.source.execute("insert into t select generate_series(1, 3)")
    start = streaming.target.value("select consistent_point::text from replication.source")
    streaming.source.execute(
        f"select pg_copy_logical_replication_slot('{streaming.slot}', 'kept_{streaming.slot}')"
    )
    streaming.receive_once()
    # Put everything back as if nothing had been received, but leave the spool.
    streaming.source.execute(
        f"select pg_drop_replication_slot('{streaming.slot}')",
        f"select pg_copy_logical_replication_slot('kept_{streaming.slot}', '{streaming.slot}')",
    )
    streaming.target.execute(
        f"select pg_replication_origin_drop('{streaming.slot}')",
        f"select pg_replication_origin_create('{streaming.slot}')",
        f"select pg_replication_origin_advance('{streaming.slot}', '{start}')",
        f"update replication.receive_progress set received_lsn = '{start}'",
    )
    with pytest.raises(AssertionError, match="duplicates"):
        assert_exactly_once(streaming)


def crash_under_load(streaming: Streaming, cluster: Cluster) -> None:
    with load(streaming) as done:
        for _ in range(2):
            await_more(done, 50)
            cluster.restart("immediate")
        await_more(done, 50)
    wait_until(lambda: str(done[-1]) in streaming.values("t"))


def test_source_that_crashes_is_received_on(stream_alone):
    streaming = stream_alone()
    cluster = streaming.source.cluster
    with streaming.start() as receiver:
        receiver.wait_streaming()
        crash_under_load(streaming, cluster)
        assert receiver.process.poll() is None
        assert "trying again" in receiver.text
        assert receiver.terminate() == 0
    assert_exactly_once(streaming)


def test_target_that_crashes_is_received_into_again(
    make_cluster, make_database, stream_from, source
):
    cluster = make_cluster()
    target = make_database(cluster, prefix="target")
    source.execute("create table t (id bigint primary key)")
    streaming = stream_from(source, into=target)
    with streaming.start() as receiver:
        receiver.wait_streaming()
        crash_under_load(streaming, cluster)
        assert receiver.terminate() == 0
    assert_exactly_once(streaming)


@pytest.mark.parametrize("side", ["source", "target"])
def test_connection_that_is_cut_is_made_again(streaming, side):
    """Also when it is cut while a commit is on its way, and nobody knows whether it arrived."""
    database = getattr(streaming, side)
    with streaming.start() as receiver:
        receiver.wait_streaming()
        with load(streaming) as done:
            for _ in range(3):
                await_more(done, 40)
                database.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name = 'pgrepl-receive' and datname = current_database()"
                )
        wait_until(lambda: str(done[-1]) in streaming.values("t"))
    assert_exactly_once(streaming)
