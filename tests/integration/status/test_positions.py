"""The numbers of status, held against PostgreSQL's own views."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from pgrepl.lsn import Lsn
from pgrepl.store.progress.bindings import publish
from tests.support.observing.bindings import target_connection
from tests.support.observing.looking import apply_spool, look, positions
from tests.support.running.streaming import Streaming
from tests.support.waiting import wait_until


def source_lsn(streaming: Streaming) -> Lsn:
    return Lsn.parse(streaming.source.value("select pg_current_wal_lsn()::text"))


def received_lsn(streaming: Streaming) -> Lsn:
    query = "select received_lsn::text from replication.receive_progress"
    return Lsn.parse(streaming.target.value(query))


def insert(streaming: Streaming, first: int, last: int) -> None:
    streaming.source.execute(f"insert into t select generate_series({first}, {last})")


def test_slot_is_what_pg_replication_slots_says(streaming):
    insert(streaming, 1, 100)
    before = source_lsn(streaming)
    found = look(streaming).source
    assert before <= found.lsn <= source_lsn(streaming)
    assert found.confirmed_lsn == streaming.slot_lsn("confirmed_flush_lsn")
    assert found.restart_lsn == streaming.slot_lsn("restart_lsn")
    assert found.held_bytes == found.lsn - found.restart_lsn
    assert (found.wal_status, found.is_active) == ("reserved", False)


def test_positions_under_load_lie_between_two_looks_at_the_views(streaming):
    def write():
        for number in range(60):
            insert(streaming, number * 100 + 1, number * 100 + 100)

    with streaming.start() as receiver, ThreadPoolExecutor(1) as pool:
        receiver.wait_streaming()
        writing = pool.submit(write)
        wait_until(lambda: look(streaming).target.row.received_lsn)
        for _ in range(10):
            before = source_lsn(streaming), received_lsn(streaming), streaming.slot_lsn()
            found = look(streaming)
            after = source_lsn(streaming), received_lsn(streaming), streaming.slot_lsn()
            here = (
                found.positions.source,
                found.positions.flushed.lsn,
                found.source.confirmed_lsn,
            )
            assert all(
                low <= lsn <= high for low, lsn, high in zip(before, here, after, strict=True)
            )
            assert found.positions.flushed.lsn <= found.positions.received.lsn
            assert found.problems == ()
        writing.result()


def test_received_position_is_what_the_walsender_heard(streaming):
    with streaming.start() as receiver:
        receiver.wait_streaming()
        insert(streaming, 1, 10)
        end = source_lsn(streaming)
        wait_until(lambda: positions(streaming).received.lsn >= end)
        wait_until(lambda: look(streaming).source.write_lsn >= end)
        found = look(streaming)
        ((pid, since),) = streaming.source.rows(
            "select pid, backend_start from pg_stat_replication"
            f" where pid = (select active_pid from pg_replication_slots"
            f" where slot_name = '{streaming.slot}')"
        )
        assert pid
        assert found.state == "streaming"
        assert found.source.receiver_since == since


def test_receiver_that_stands_still_shows_as_lag_of_receiving(streaming):
    with streaming.start() as receiver:
        receiver.wait_streaming()
        insert(streaming, 1, 10)
        end = source_lsn(streaming)
        wait_until(lambda: positions(streaming).flushed.lsn >= end)
        os.kill(receiver.process.pid, signal.SIGSTOP)
        insert(streaming, 11, 20)
        end = source_lsn(streaming)
        first = positions(streaming)
        wait_until(lambda: positions(streaming).flushed.lag_s > first.flushed.lag_s + 0.5)
        assert first.flushed.lag_bytes == first.source - first.flushed.lsn > 0
        os.kill(receiver.process.pid, signal.SIGCONT)
        wait_until(lambda: positions(streaming).flushed.lsn >= end)


def test_spool_is_what_its_table_holds(streaming):
    for number in range(3):
        insert(streaming, number * 10 + 1, number * 10 + 10)
        streaming.receive_once()
    row = look(streaming).target.row
    segments, changes, size, oldest = streaming.target.rows(
        "select count(distinct seq), sum(change_count), sum(pg_column_size(payload)),"
        " min(first_commit_at) from replication.raw_messages"
    )[0]
    assert (row.segment_count, row.change_count, row.byte_count) == (segments, changes, size)
    assert (segments, changes) == (3, 30)
    assert row.oldest_commit_at == oldest
    assert row.change_count == streaming.target.value("select count(*) from replication.messages")


def test_lag_of_applying_counts_from_the_oldest_change_that_waits(streaming):
    insert(streaming, 1, 10)
    streaming.receive_once()
    insert(streaming, 11, 20)
    streaming.receive_once()
    oldest, newest = streaming.target.rows(
        "select min(first_commit_at), max(first_commit_at) from replication.raw_messages"
    )[0]

    def waits_since():
        found = look(streaming)
        return found.source.clock_at - timedelta(seconds=found.positions.applied.lag_s)

    assert abs(waits_since() - oldest) < timedelta(milliseconds=1)
    apply_spool(streaming, seq=1)
    assert abs(waits_since() - newest) < timedelta(milliseconds=1)
    found = positions(streaming)
    ends = "select applied_lsn::text from replication.shard_progress where shard = 0"
    assert str(found.applied.lsn) == streaming.target.value(ends)
    assert found.applied.lag_bytes == found.source - found.applied.lsn


def test_slowest_shard_counts(streaming):
    for number in range(2):
        insert(streaming, number + 1, number + 1)
        streaming.receive_once()
    apply_spool(streaming, seq=1)
    streaming.target.execute(
        "update replication.shard_progress set applied_seq = 2,"
        " applied_lsn = (select received_lsn from replication.receive_progress) where shard = 1"
    )
    found = look(streaming)
    slow, fast = found.target.shards
    assert (slow.applied_seq, fast.applied_seq) == (1, 2)
    assert found.positions.applied.lsn == slow.applied_lsn < fast.applied_lsn
    assert found.positions.applied.lag_s > 0


def test_applied_is_as_far_as_received_when_nothing_waits(streaming):
    insert(streaming, 1, 10)
    streaming.receive_once()
    apply_spool(streaming)
    found = positions(streaming)
    assert found.applied == found.flushed


def apply_change_of_long_ago(streaming: Streaming) -> None:
    insert(streaming, 1, 10)
    end = source_lsn(streaming)
    wait_until(lambda: positions(streaming).flushed.lsn >= end)
    apply_spool(streaming)
    streaming.target.execute(
        "update replication.receive_progress set commit_at = now() - interval '3 h'"
    )


def test_idle_source_has_no_lag_however_old_its_last_change(stream_alone):
    streaming = stream_alone()
    with streaming.start() as receiver:
        receiver.wait_streaming()
        apply_change_of_long_ago(streaming)
        wait_until(lambda: positions(streaming).applied.lag_bytes == 0)
        assert positions(streaming).applied.lag_s == 0


def test_traffic_of_other_databases_is_no_lag_of_hours(stream_alone, make_database):
    streaming = stream_alone()
    other = make_database(streaming.source.cluster)
    other.execute("create table noise (x text)")
    with streaming.start() as receiver:
        receiver.wait_streaming()
        apply_change_of_long_ago(streaming)
        other.execute("insert into noise select repeat('x', 1000) from generate_series(1, 1000)")
        end = source_lsn(streaming)
        # The receiver records such traffic every five seconds.
        wait_until(lambda: positions(streaming).flushed.lsn >= end)
        other.execute("insert into noise values ('y')")
        found = positions(streaming)
        assert found.flushed.lag_bytes > 0
        assert found.applied.lag_s < 60


def test_published_binding_and_rate_are_shown(streaming):
    insert(streaming, 1, 10)
    streaming.receive_once()
    apply_spool(streaming)
    assert look(streaming).target.row.published_lsn is None
    start, end = streaming.slot_lsn("restart_lsn"), received_lsn(streaming)
    with target_connection(streaming.target) as connection:
        connection.execute(
            "insert into replication.binding values (%s, now() - interval '10 s', %s)",
            (streaming.source_id, start),
        )
        publish(connection, streaming.source_id, end)
    row = look(streaming).target.row
    assert row.published_lsn == end
    assert row.applied_bytes_per_s == pytest.approx((end - start) / 10, rel=0.05)
