"""Replay in bulk: what is very big goes through in bounded memory, and random kills lose nothing.

How many seeds: ``PGREPL_SOAK_SEEDS``, 20 unless given.
"""

from __future__ import annotations

import logging
import os
import signal
import time

import pytest

from pgrepl.replayer.shard.shard_result import ShardResult
from pgrepl.replayer.shard.task import run_shard
from pgrepl.throwaway import Cluster
from pgrepl.throwaway.cluster import LOGICAL_DECODING
from tests.spark.replay.test_replay_random import run_seed
from tests.support.database import Database
from tests.support.machine.memory import peak_mib
from tests.support.program import run_pgrepl, write_config
from tests.support.running.backlog import make_backlog, plan
from tests.support.running.pipeline import Pipeline, clone
from tests.support.running.replaying import checksums

logger = logging.getLogger(__name__)

SEEDS = int(os.environ.get("PGREPL_SOAK_SEEDS", "20"))
MIB = 1 << 20

pytestmark = pytest.mark.usefixtures("one_spark_session")

DRIVER_PLACES = ["before_finish", "after_finish", "before_serial_commit", "after_serial_commit"]
MERGE_PLACES = ["before_merge_commit", "after_merge_commit"]
WORKER_PLACES = ["fenced", "chunk_applied", "before_commit", "after_commit"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 100 + SEEDS))
def test_target_is_the_source_after_many_random_transactions(source, target, seed):
    run_seed(source, target, seed, rounds=4, transactions=60)


def in_a_process(act) -> tuple[object, int]:
    """Do something in a process of its own; return what it says, and its peak in MiB."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = act()
            said = "ok" if isinstance(result, ShardResult) else repr(result)
            os.write(write_end, f"{peak_mib(os.getpid())} {said}".encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    peak, _, said = os.read(read_end, 1000).decode().partition(" ")
    return said, int(peak)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", ["insert", "update"])
def test_transaction_of_millions_of_rows_is_applied_in_bounded_memory(source, target, kind):
    rows = 3_000_000
    source.execute("create table t (id int primary key, n int, note text)")
    if kind == "update":
        source.execute(f"insert into t select g, 0, 'row' from generate_series(1, {rows}) g")
    pipeline = Pipeline(source, target)
    pipeline.copy()
    if kind == "insert":
        source.execute(
            f"insert into t select g, 0, repeat('note ' || g, 10) from generate_series(1, {rows}) g"
        )
    else:
        source.execute("update t set n = n + 1, note = repeat('note ' || id, 10)")
    pipeline.receive()
    size = target.value("select sum(octet_length(payload)) from replication.raw_messages")
    assert size > 1_000_000_000
    _, (task,) = plan(pipeline)
    begin = time.monotonic()
    said, peak = in_a_process(lambda: run_shard(task))
    logger.info("%s: %s MiB, %s s, peak %s MiB", kind, size // MIB, time.monotonic() - begin, peak)
    assert said == "ok"
    # The process of the test, from which it is forked, and a few chunks of 64 MiB.
    assert peak < 1200
    assert pipeline.replay().error is None
    assert pipeline.differences() == []


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_five_thousand_tables(source, binaries, consistency):
    # As doctor asks for.
    with Cluster(
        binaries=binaries, settings={**LOGICAL_DECODING, "max_locks_per_transaction": "256"}
    ) as cluster:
        cluster.create_database("target")
        change_five_thousand_tables(source, Database(cluster, "target"), consistency)


def change_five_thousand_tables(source, target, consistency):
    count = 5000
    with source.connect() as connection:
        for number in range(count):
            connection.execute(f"create table t{number} (id int primary key, note text)".encode())
            connection.execute(f"insert into t{number} values (1, 'a')".encode())
    pipeline = Pipeline(source, target, {"consistency": consistency})
    pipeline.copy()
    with source.connect() as connection:
        for number in range(count):
            connection.execute(f"update t{number} set note = 'b'".encode())
    pipeline.receive()
    begin = time.monotonic()
    result = pipeline.replay()
    logger.info("%s: %s batches, %s s", consistency, result.batch_count, time.monotonic() - begin)
    assert result.error is None
    assert result.parked == []
    assert pipeline.differences() == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("place", [*DRIVER_PLACES, *MERGE_PLACES, *WORKER_PLACES])
def test_program_killed_at_every_place_goes_on(source_cluster, target_cluster, tmp_path, place):
    with make_backlog(source_cluster, target_cluster) as made:
        target = clone(made.target, "backlog_killed")
        backlog = Pipeline(made.source, target)
        consistency = "batch" if place in MERGE_PLACES else "shard"
        config = write_config(
            tmp_path / "pgrepl.toml",
            target.dsn(),
            {made.source.name: made.source.dsn()},
            f'[spark]\nmaster = "local[2]"\n[replay]\nconsistency = "{consistency}"',
        )
        killed = run_pgrepl(
            *("replay", "--once", "--config", config),
            env={"PGREPL_FAILPOINT": f"replayer.{place}:kill"},
        )
        # A worker that dies after its commit has done its shard: the program may end well.
        expected = {1, 0} if place in WORKER_PLACES else {-signal.SIGKILL}
        assert killed.returncode in expected, killed.stderr
        done = run_pgrepl("replay", "--once", "--config", config)
        assert done.returncode == 0, done.stderr
        assert checksums(target, backlog.schema()) == checksums(made.source, "public")
        target.execute("delete from replication.source")
        target.drop()
