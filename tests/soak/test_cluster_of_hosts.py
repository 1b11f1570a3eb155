"""The whole way on a Spark cluster whose master, workers and driver have addresses of their own.

Authentication and encryption are on; executors have Python and our dependencies, pgrepl itself
comes from the driver. A worker, the master and then an executor are killed while replay runs.
"""

from __future__ import annotations

import subprocess

import pytest

from tests.support.machine.network_hosts import listen_on, network_hosts
from tests.support.machine.proxy import Proxy
from tests.support.program import COMMAND, write_config
from tests.support.running.replaying import checksums
from tests.support.spark.spark_cluster import SparkCluster, bare_python
from tests.support.waiting import wait_until
from tests.support.workloads.workload import make_tables

#: More than the driver applies itself.
CHANGES = "update app.accounts set balance = balance + 1; update app.history set delta = delta + 1"


@pytest.mark.timeout(1200)
def test_worker_and_master_that_die_cost_nothing_but_time(source, target, tmp_path, quick_java):  # noqa: ARG001
    make_tables(source)
    source.execute("insert into app.accounts select g, 0 from generate_series(3000, 15000) g")
    there = f"{source.name}_app"

    def is_equal() -> bool:
        return checksums(target, there) == checksums(source, "app")

    with network_hosts(4) as hosts:
        here = hosts[0]
        with (
            SparkCluster(hosts=hosts, python=bare_python(tmp_path / "venv")) as cluster,
            Proxy(source, listen_on(here)) as source_proxy,
            Proxy(target, listen_on(here)) as target_proxy,
        ):
            config = write_config(
                tmp_path / "pgrepl.toml",
                target_proxy.dsn,
                {source.name: source_proxy.dsn},
                cluster.toml(),
            )

            def run(*arguments: str) -> None:
                done = subprocess.run(
                    [*here.command, *COMMAND, *arguments, "--config", config],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, done.stderr

            run("basebackup", source.name)
            assert is_equal()
            log = tmp_path / "replay.log"
            with (
                log.open("wb") as sink,
                subprocess.Popen(
                    [*here.command, *COMMAND, "replay", "--config", config],
                    stderr=sink,
                    stdout=sink,
                ) as replay,
            ):
                try:
                    for fault in (
                        lambda: None,
                        lambda: cluster.kill_worker(0),
                        cluster.replace_master,
                        # Whoever replaced the master has to find a place for another one.
                        lambda: cluster.kill_executor(1),
                    ):
                        source.execute(CHANGES)
                        fault()
                        run("receive", source.name, "--once")
                        wait_until(is_equal, timeout_s=180)
                finally:
                    replay.terminate()
            assert replay.returncode == 0, log.read_text()
            run("verify", source.name)
