"""Random transactions, random cuts, random kills: the target is the source in the end."""

from __future__ import annotations

import random

import pytest

from pgrepl.receiver import ReceiverSettings
from pgrepl.replayer import ReplaySettings
from pgrepl.replayer.shard.task import run_shard
from tests.support.running.backlog import die_at, plan
from tests.support.running.pipeline import Pipeline
from tests.support.workloads.random_source import TABLES, change_at_random

pytestmark = pytest.mark.usefixtures("one_spark_session")

PLACES = ["fenced", "chunk_applied", "before_commit", "after_commit"]


def random_settings(dice: random.Random) -> ReplaySettings:
    return ReplaySettings(
        step_bytes=dice.choice([1, 1 << 20]),
        chunk_bytes=dice.choice([500, 5000, 1 << 20]),
        batch_changes=dice.choice([20, 200, 1 << 20]),
        batch_segments=dice.choice([3, 20, 1000]),
        slice_changes=dice.choice([1, 20, 20_000]),
        backoff_s=0.01,
    )


def kill_a_task(pipeline: Pipeline, dice: random.Random, settings: ReplaySettings) -> None:
    """Leave shards apart, as a driver does that dies in the middle of a batch."""
    work, tasks = plan(pipeline, settings)
    if work.batch.kind == "serial":
        return
    for task in tasks[: dice.randrange(len(tasks))]:
        run_shard(task)
    die_at(f"replayer.{dice.choice(PLACES)}", lambda: run_shard(tasks[-1]))


def run_seed(
    source, target, seed: int, rounds: int = 3, transactions: int = 25, *, plugin="wal2json"
) -> None:
    dice = random.Random(seed)
    source.execute(TABLES)
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.copy()
    for _ in range(rounds):
        change_at_random(source, dice, transactions)
        size = dice.choice([1, 2000, 1 << 20])
        pipeline.receive(ReceiverSettings(segment_bytes=size))
        settings = random_settings(dice)
        pipeline.options = {
            "shards": dice.choice([1, 3, 4]),
            "consistency": dice.choice(["shard", "batch"]),
        }
        if dice.random() < 0.6 and pipeline.spool_count():
            kill_a_task(pipeline, dice, settings)
        result = pipeline.replay(settings)
        assert result.error is None, (seed, result.error)
        assert pipeline.parked() == [], seed
        assert pipeline.differences() == [], seed


@pytest.mark.parametrize(
    ("seed", "plugin"),
    [
        (0, "wal2json"),
        (1, "pgoutput"),
        pytest.param(2, "wal2json", marks=pytest.mark.soak),
        pytest.param(3, "pgoutput", marks=pytest.mark.soak),
    ],
)
def test_target_is_the_source_after_random_transactions(source, target, seed, plugin):
    run_seed(source, target, seed, plugin=plugin)
