"""Receiving, for long and in bulk: kill everything at random, and send what is very big.

How long: ``PGREPL_SOAK_S`` seconds of kills, 60 unless given.
"""

from __future__ import annotations

import logging
import os
import random
import time

import pytest

from tests.support.machine.memory import peak_mib
from tests.support.waiting import wait_until
from tests.support.workloads.counting import assert_exactly_once, await_more, load

logger = logging.getLogger(__name__)

DURATION_S = float(os.environ.get("PGREPL_SOAK_S", "60"))
MIB = 1 << 20


@pytest.mark.timeout(DURATION_S * 3 + 300)
def test_receiver_source_and_target_killed_at_random(make_cluster, make_database, stream_from):
    clusters = [make_cluster(), make_cluster()]
    source, target = (
        make_database(cluster, prefix=prefix)
        for cluster, prefix in zip(clusters, ("source", "target"), strict=True)
    )
    source.execute("create table t (id bigint primary key, note text)")
    streaming = stream_from(source, into=target)
    seed = int.from_bytes(os.urandom(4), "big")
    chance = random.Random(seed)
    kills = {"receiver": 0, "source": 0, "target": 0}
    until = time.monotonic() + DURATION_S
    with load(streaming, pause_s=0.0005) as done:
        while time.monotonic() < until:
            with streaming.start() as receiver:
                receiver.wait_streaming()
                for _ in range(chance.randint(0, 2)):
                    await_more(done, chance.randint(1, 300))
                    victim = chance.choice(["source", "target"])
                    kills[victim] += 1
                    clusters[victim == "target"].restart("immediate")
                await_more(done, chance.randint(1, 300))
                receiver.kill()
                kills["receiver"] += 1
    logger.info("seed %s, kills %s, %s transactions", seed, kills, len(done))
    assert_exactly_once(streaming)


@pytest.mark.timeout(1200)
def test_transaction_of_two_gigabytes_passes_in_bounded_memory(
    make_cluster, make_database, stream_from
):
    source = make_database(make_cluster({"wal_sender_timeout": "5s"}), prefix="source")
    target = make_database(make_cluster(), prefix="target")
    source.execute("create table t (id bigint primary key, note text)")
    streaming = stream_from(source, into=target)
    rows = 10_000_000
    source.execute(f"insert into t select g, 'row ' || g from generate_series(1, {rows}) g")
    with streaming.start(is_fresh=True) as receiver:
        wait_until(
            lambda: target.value("select count(*) from replication.raw_messages"), timeout_s=1000
        )
        peak = peak_mib(receiver.process.pid)
        assert "trying again" not in receiver.text
        assert receiver.terminate() == 0
    count, size, segments = target.rows(
        "select sum(change_count), sum(length(payload)), count(distinct seq)"
        " from replication.raw_messages"
    )[0]
    logger.info("%s bytes of lines, peak %s MiB", size, peak)
    assert (count, segments) == (rows, 1)
    assert size > 1900 * MIB
    assert peak < 150


@pytest.mark.timeout(600)
def test_values_of_200_megabytes_pass(make_cluster, make_database, stream_from):
    source = make_database(make_cluster({"wal_sender_timeout": "5s"}), prefix="source")
    target = make_database(make_cluster(), prefix="target")
    source.execute("create table t (id bigint primary key, note text)")
    streaming = stream_from(source, into=target)
    size = 200 * MIB
    note = f"repeat('0123456789abcdef', {size // 16})"
    source.execute(f"insert into t select g, {note} from generate_series(1, 3) g")
    with streaming.start(is_fresh=True) as receiver:
        wait_until(
            lambda: target.value("select count(*) = 3 from replication.raw_messages"),
            timeout_s=300,
        )
        peak = peak_mib(receiver.process.pid)
        assert receiver.terminate() == 0
    logger.info("peak %s MiB", peak)
    assert target.value("select min(length(payload)) from replication.raw_messages") > size
    assert peak < 1200
