"""Size, speed and idleness: memory stays bounded, the source is never kept waiting."""

from __future__ import annotations

import os
import signal
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from pgrepl.config.file import load_config
from pgrepl.decoding.wal2json.short import lines_of
from pgrepl.receiver import Receiver, ReceiverSettings, Result
from tests.support.machine.memory import peak_mib
from tests.support.running.streaming import Streaming
from tests.support.waiting import wait_until

MIB = 1 << 20


def test_big_transaction_passes_in_bounded_memory(streaming):
    rows = 165_000
    streaming.source.execute(
        f"insert into t select g, repeat(md5(g::text), 20) from generate_series(1, {rows}) g"
    )
    with streaming.start(is_fresh=True) as receiver:
        wait_until(lambda: streaming.target.value("select count(*) from replication.raw_messages"))
        peak = peak_mib(receiver.process.pid)
        assert receiver.terminate() == 0
    count, size, segments = streaming.target.rows(
        "select sum(change_count), sum(length(payload)), count(distinct seq)"
        " from replication.raw_messages"
    )[0]
    assert (count, segments) == (rows, 1)
    assert size > 100 * MIB
    assert peak < 150
    first, last = streaming.target.rows(
        "select (select payload from replication.raw_messages order by part limit 1),"
        " (select payload from replication.raw_messages order by part desc limit 1)"
    )[0]
    # Each part can be read alone.
    assert all(lines_of(part).startswith(b'{"action":"B"') for part in (first, last))


def test_big_transaction_with_a_late_truncate_becomes_serial_as_a_whole(source, stream_from):
    source.execute("create table t (id int primary key, x text)", "create table u (id int)")
    streaming = stream_from(source)
    source.execute(
        "begin; insert into t select g, repeat('x', 1000) from generate_series(1, 12000) g;"
        " insert into u values (1); truncate u; insert into u values (2); commit"
    )
    streaming.receive_once()
    assert streaming.target.rows(
        "select distinct kind, bucket, seq from replication.raw_messages"
    ) == [("serial", -1, 1)]
    assert streaming.target.value("select count(*) from replication.raw_messages") > 2
    order = [(line["action"], line["table"]) for line in streaming.lines()]
    assert order == [("I", "t")] * 12000 + [("I", "u"), ("T", "u"), ("I", "u")]


def test_big_value_passes(streaming):
    size = 30 * MIB
    streaming.source.execute(f"insert into t values (1, repeat('x', {size}))")
    streaming.receive_once()
    assert streaming.target.value("select length(payload) from replication.raw_messages") > size
    assert streaming.values("t") == ["1"]


def test_slow_target_does_not_make_the_source_give_up(stream_alone):
    streaming = stream_alone({"wal_sender_timeout": "1s"})
    source = streaming.source
    walsender = "select pid from pg_stat_replication"
    with streaming.start(is_fresh=True) as receiver, streaming.target.connect() as blocker:
        receiver.wait_streaming()
        ((pid,),) = source.rows(walsender)
        with blocker.transaction():
            blocker.execute("lock table replication.raw_messages in exclusive mode")
            # More than the receiver holds in memory: it stops to read, and goes on to talk.
            source.execute(
                "insert into t select g, repeat('x', 1000) from generate_series(1, 60000) g"
            )
            until = time.monotonic() + 4
            wait_until(lambda: time.monotonic() > until)
            assert source.rows(walsender) == [(pid,)]
            assert peak_mib(receiver.process.pid) < 150
        wait_until(lambda: streaming.target.value("select count(*) from replication.raw_messages"))
        assert source.rows(walsender) == [(pid,)]
        assert "trying again" not in receiver.text


def test_idle_database_does_not_hold_back_the_wal_of_a_busy_one(
    make_cluster, make_database, stream_from
):
    cluster = make_cluster()
    idle, busy = (make_database(cluster, prefix=prefix) for prefix in ("idle", "busy"))
    idle.execute("create table t (id bigint primary key)")
    busy.execute("create table t (x text)")
    streaming = stream_from(idle)
    before, restart = streaming.slot_lsn(), streaming.slot_lsn("restart_lsn")
    with streaming.start() as receiver:
        receiver.wait_streaming()
        busy.execute("insert into t select repeat('x', 1000) from generate_series(1, 5000)")
        wait_until(lambda: streaming.slot_lsn() > before + 4 * MIB)
        # The target knew it before the source did.
        assert streaming.origin_lsn() >= streaming.slot_lsn()

        def moves_on():
            busy.execute("insert into t values ('x')", "checkpoint")
            return streaming.slot_lsn("restart_lsn") > restart + 4 * MIB

        wait_until(moves_on)
        assert receiver.terminate() == 0
    assert streaming.lines() == []
    status = idle.value(
        f"select wal_status from pg_replication_slots where slot_name = '{streaming.slot}'"
    )
    assert status == "reserved"


def test_source_can_shut_down_while_it_is_received(stream_alone):
    streaming = stream_alone()
    source = streaming.source
    with streaming.start() as receiver:
        receiver.wait_streaming()
        source.execute("insert into t values (1)")
        wait_until(lambda: streaming.values("t") == ["1"])
        source.cluster.restart("fast")
        source.execute("insert into t values (2)")
        wait_until(lambda: streaming.values("t") == ["1", "2"])


def test_full_spool_pauses_the_receiver_and_replay_frees_it(source, stream_from):
    source.execute("create table t (id bigint primary key, x text)")
    streaming = stream_from(source, max_spool="64kB")
    noise = "(select string_agg(md5(random()::text || g), '') from generate_series(1, 4000) g)"
    with streaming.start() as receiver:
        receiver.wait_streaming()
        source.execute(f"insert into t select 1, {noise}")
        wait_until(lambda: streaming.values("t") == ["1"])
        number = 1

        def is_paused():
            nonlocal number
            number += 1
            source.execute(f"insert into t select {number}, {noise}")
            return "receiving pauses" in receiver.text

        wait_until(is_paused)
        held = len(streaming.lines())
        assert held < number
        streaming.target.execute("delete from replication.raw_messages")
        wait_until(lambda: "receiving goes on" in receiver.text)
        wait_until(lambda: str(number) in streaming.values("t"))
        assert receiver.terminate() == 0


def test_once_with_a_full_spool_says_so_instead_of_waiting(source, stream_from):
    source.execute("create table t (id bigint primary key, x text)")
    streaming = stream_from(source, max_spool="1kB")
    source.execute(
        "insert into t select 1, string_agg(md5(g::text), '') from generate_series(1, 2000) g"
    )
    streaming.receive_once()
    source.execute("insert into t values (2)")
    done = streaming.receive_once(code=40)
    assert "max_spool allows 1024" in done.stderr
    assert "pgrepl replay" in done.stderr
    assert streaming.values("t") == ["1"]


def test_sigterm_ends_it_at_a_boundary(streaming):
    with streaming.start() as receiver:
        receiver.wait_streaming()
        streaming.source.execute("insert into t values (1)")
        wait_until(lambda: streaming.values("t") == ["1"])
        assert receiver.terminate() == 0
    assert streaming.slot_lsn() == streaming.origin_lsn()
    assert "received up to" in receiver.text


def test_sigterm_ends_it_when_the_target_hangs(streaming):
    with streaming.start() as receiver, streaming.target.connect() as blocker:
        receiver.wait_streaming()
        with blocker.transaction():
            blocker.execute("lock table replication.raw_messages in exclusive mode")
            streaming.source.execute("insert into t values (1)")
            wait_until(
                lambda: streaming.target.value(
                    "select count(*) from pg_locks where not granted and relation ="
                    " 'replication.raw_messages'::regclass"
                )
            )
            receiver.terminate()
    streaming.receive_once()
    assert streaming.values("t") == ["1"]


def test_systemd_hears_that_we_are_ready_alive_and_stopping(streaming, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
        with streaming.start(env=env) as receiver:
            heard = [manager.recv(100), manager.recv(100), manager.recv(100)]
            assert heard == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
            receiver.terminate()
            while (last := manager.recv(100)) == b"WATCHDOG=1":
                pass
            assert last == b"STOPPING=1"


@pytest.mark.parametrize("side", ["source", "target"])
def test_server_that_is_down_is_waited_for(side, make_cluster, make_database, stream_from):
    clusters = {name: make_cluster() for name in ("source", "target")}
    source, target = (make_database(clusters[name], prefix=name) for name in ("source", "target"))
    source.execute("create table t (id bigint primary key)")
    streaming = stream_from(source, into=target)
    clusters[side].stop()
    with streaming.start() as receiver:
        wait_until(lambda: "trying again" in receiver.text)
        clusters[side].start()
        receiver.wait_streaming()
        source.execute("insert into t values (1)")
        wait_until(lambda: streaming.values("t") == ["1"])


def test_sigterm_ends_it_when_a_server_does_not_answer(streaming):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        streaming.write_config(dsn=f"host=127.0.0.1 port={port} dbname=x user=x")
        with streaming.start() as receiver:
            silent.settimeout(20)
            connection, _ = silent.accept()
            with connection:
                assert receiver.terminate() == 0


@pytest.fixture
def run_inside():
    """Return a function that runs a receiver in this process, with settings of its own."""
    with ExitStack() as stack:

        def run(streaming: Streaming, **settings: Any) -> tuple[Receiver, Future[Result]]:
            config = load_config(streaming.config)
            receiver = Receiver(
                config, config.source("shop"), settings=ReceiverSettings(**settings)
            )
            pool = stack.enter_context(ThreadPoolExecutor())
            stack.callback(receiver.stop)
            return receiver, pool.submit(receiver.run)

        yield run


def test_log_tells_the_position_now_and_then(streaming, caplog, run_inside):
    caplog.set_level("INFO", "pgrepl")
    receiver, running = run_inside(streaming, report_s=0.1, status_s=0.1)
    streaming.source.execute("insert into t values (1)")
    wait_until(lambda: streaming.values("t") == ["1"])
    seen = len(caplog.records)
    wait_until(lambda: "position" in [r.message for r in caplog.records[seen:]])
    receiver.stop()
    result = running.result()
    record = vars(next(r for r in reversed(caplog.records) if r.message == "position"))
    assert record["flushed"] <= record["received"]
    assert {"messages_per_s", "spool_bytes"} <= set(record)
    assert result.transaction_count == 1


def test_idle_source_is_not_taken_for_dead_but_a_stopped_one_is(stream_alone, caplog, run_inside):
    streaming = stream_alone({"wal_sender_timeout": "1s"})
    source = streaming.source
    caplog.set_level("INFO", "pgrepl")
    run_inside(streaming, silence_s=0.5)
    walsender = "select pid from pg_stat_replication"
    ((pid,),) = wait_until(lambda: source.rows(walsender))
    until = time.monotonic() + 4
    wait_until(lambda: time.monotonic() > until)
    assert source.rows(walsender) == [(pid,)]
    assert "trying again" not in caplog.text
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: "the source has been silent" in caplog.text)
    finally:
        os.kill(pid, signal.SIGCONT)
    source.execute("insert into t values (1)")
    wait_until(lambda: streaming.values("t") == ["1"])


def test_program_that_takes_long_to_go_away_ended_all_the_same(streaming, tmp_path):
    # As on a busy machine: longer than the receiver itself may take.
    slow = "import atexit, time\natexit.register(time.sleep, 2)\n"
    (tmp_path / "sitecustomize.py").write_text(slow)
    with streaming.start(env={"PYTHONPATH": str(tmp_path)}) as receiver:
        receiver.wait_streaming()
        assert receiver.terminate() == 0
        assert "Traceback" not in receiver.text
