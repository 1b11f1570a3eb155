"""The whole way on a Spark cluster whose master, workers and driver have addresses of their own.

Authentication and encryption are on; executors have Python and our dependencies, pgrepl itself
comes from the driver. A worker and the master are killed while replay runs.
"""

from __future__ import annotations

import subprocess

import pytest

from tests.support.network_hosts import network_hosts
from tests.support.program import COMMAND, run_pgrepl, write_config
from tests.support.proxy import Proxy
from tests.support.replaying import checksums
from tests.support.spark_cluster import SparkCluster, bare_python
from tests.support.waiting import wait_until
from tests.support.workload import make_tables

#: More than the driver applies itself.
CHANGES = "update app.accounts set balance = balance + 1; update app.history set delta = delta + 1"


@pytest.mark.timeout(1200)
def test_worker_and_master_that_die_cost_nothing_but_time(source, target, tmp_path, quick_java):  # noqa: ARG001
    make_tables(source)
    source.execute("insert into app.accounts select g, 0 from generate_series(3000, 15000) g")
    there = f"{source.name}_app"

    def is_equal() -> bool:
        return checksums(target, there) == checksums(source, "app")

    with network_hosts(3) as hosts:
        here = hosts[0].address
        with (
            SparkCluster(hosts=hosts, python=bare_python(tmp_path / "venv")) as cluster,
            Proxy(source, here) as source_proxy,
            Proxy(target, here) as target_proxy,
        ):
            config = write_config(
                tmp_path / "pgrepl.toml",
                target_proxy.dsn,
                {source.name: source_proxy.dsn},
                cluster.toml(),
            )

            def run(*arguments: str) -> None:
                done = run_pgrepl(*arguments, "--config", config)
                assert done.returncode == 0, done.stderr

            run("basebackup", source.name)
            assert is_equal()
            log = tmp_path / "replay.log"
            with (
                log.open("wb") as sink,
                subprocess.Popen(
                    [*COMMAND, "replay", "--config", config], stderr=sink, stdout=sink
                ) as replay,
            ):
                try:
                    for fault in (
                        lambda: None,
                        lambda: cluster.kill_worker(0),
                        cluster.replace_master,
                    ):
                        source.execute(CHANGES)
                        fault()
                        run("receive", source.name, "--once")
                        wait_until(is_equal, timeout_s=180)
                finally:
                    replay.terminate()
            assert replay.returncode == 0, log.read_text()
            run("verify", source.name)
