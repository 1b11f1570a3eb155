"""On a standalone cluster of two workers, one of which dies in the middle of a batch."""

from __future__ import annotations

import subprocess

from tests.support.program import COMMAND, write_config
from tests.support.spark_cluster import SparkCluster
from tests.support.waiting import wait_until

WAITING = (
    "select count(*) from pg_stat_activity where application_name = 'pgrepl-replay'"
    " and wait_event_type = 'Lock'"
)


def test_worker_that_dies_in_the_middle_costs_nothing_but_time(backlog, tmp_path):
    with SparkCluster() as cluster, backlog.target.connect() as blocker:
        # Every task waits for a table of its shard, so that all are in the middle.
        names = ", ".join(f"{backlog.schema()}.{table}" for table in "abcd")
        blocker.execute(f"begin; lock table {names}")
        config = write_config(
            tmp_path / "pgrepl.toml",
            backlog.target.dsn(),
            {backlog.source.name: backlog.source.dsn()},
            cluster.toml(),
        )
        with subprocess.Popen(
            [*COMMAND, "replay", "--once", "--config", config],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        ) as run:
            wait_until(lambda: backlog.target.value(WAITING) == 2, timeout_s=90)
            cluster.kill_worker(0)
            blocker.execute("rollback")
            _, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    assert backlog.parked() == []
    assert backlog.differences() == []
    assert backlog.spool_count() == 0
