"""On a standalone cluster of two workers, one of which dies in the middle of a batch."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.program import COMMAND, write_config
from tests.support.running.pipeline import Pipeline
from tests.support.spark.spark_cluster import SparkCluster
from tests.support.waiting import wait_until

WAITING = (
    "select count(*) from pg_stat_activity where application_name = 'pgrepl-replay'"
    " and wait_event_type = 'Lock'"
)


TABLES = "abcdefgh"
#: All in all more than the driver applies itself.
ROWS = 1500


@pytest.mark.soak
def test_worker_that_dies_in_the_middle_costs_nothing_but_time(source, target, tmp_path):
    backlog = Pipeline(source, target)
    source.execute(*(f"create table {table} (id int primary key)" for table in TABLES))
    backlog.copy()
    source.execute(*(f"insert into {table} select generate_series(1, {ROWS})" for table in TABLES))
    backlog.receive()
    with SparkCluster() as cluster, target.connect() as blocker:
        # Every task waits for a table of its shard, so that all are in the middle.
        names = ", ".join(f"{backlog.schema()}.{table}" for table in TABLES)
        blocker.execute(f"begin; lock table {names}")
        config = write_config(
            tmp_path / "pgrepl.toml",
            target.dsn(),
            {source.name: source.dsn()},
            cluster.toml(),
        )
        with subprocess.Popen(
            [*COMMAND, "replay", "--once", "--config", config],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        ) as run:
            try:
                wait_until(lambda: target.value(WAITING) == 2, timeout_s=90)
                cluster.kill_worker(0)
            finally:
                blocker.execute("rollback")
            _, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    assert backlog.parked() == []
    assert backlog.differences() == []
    assert backlog.spool_count() == 0
