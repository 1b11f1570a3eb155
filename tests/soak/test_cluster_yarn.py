"""The whole way on YARN, as docs/cluster.md says: a configuration of Hadoop, Python as an archive.

An executor, the application's master and then YARN's own are killed while replay runs.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.program import COMMAND, write_config
from tests.support.running.replaying import checksums
from tests.support.spark.spark_cluster import bare_python
from tests.support.spark.yarn_cluster import YarnCluster, pack_python
from tests.support.waiting import wait_until
from tests.support.workloads.workload import make_tables

#: More than the driver applies itself.
CHANGES = "update app.accounts set balance = balance + 1; update app.history set delta = delta + 1"
EXECUTOR = "YarnCoarseGrainedExecutorBackend"
MASTER = "ExecutorLauncher"
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.mark.timeout(1200)
def test_whatever_of_yarn_dies_costs_nothing_but_time(source, target, tmp_path, quick_java):  # noqa: ARG001
    make_tables(source)
    source.execute("insert into app.accounts select g, 0 from generate_series(3000, 15000) g")
    archive = pack_python(bare_python(tmp_path / "venv"), tmp_path / "python.tar.gz")
    log = tmp_path / "replay.log"

    def is_equal() -> bool:
        return checksums(target, f"{source.name}_app") == checksums(source, "app")

    with YarnCluster() as cluster:
        conf = {
            **cluster.conf,
            "spark.yarn.dist.archives": f"{archive}#python",
            "spark.pyspark.python": "./python/bin/python",
            "spark.authenticate": "true",
            "spark.network.crypto.enabled": "true",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "2",
            "spark.executor.extraJavaOptions": _JAVA,
            "spark.yarn.am.extraJavaOptions": _JAVA,
        }
        lines = "".join(f'"{key}" = "{value}"\n' for key, value in conf.items())
        config = write_config(
            tmp_path / "pgrepl.toml",
            target.dsn(),
            {source.name: source.dsn()},
            f'[spark]\nmaster = "yarn"\n[spark.conf]\n{lines}',
        )
        env = {**os.environ, "HADOOP_CONF_DIR": str(cluster.conf_folder)}

        def run(*arguments: str) -> None:
            done = subprocess.run(
                [*COMMAND, *arguments, "--config", config],
                capture_output=True,
                text=True,
                env=env,
                check=False,
            )
            assert done.returncode == 0, done.stderr

        run("basebackup", source.name)
        assert is_equal()
        with (
            log.open("wb") as sink,
            subprocess.Popen(
                [*COMMAND, "replay", "--config", config], stderr=sink, stdout=sink, env=env
            ) as replay,
        ):
            try:
                wait_until(lambda: cluster.count(EXECUTOR) == 2, timeout_s=180)
                for fault in (
                    lambda: None,
                    lambda: cluster.kill_one(EXECUTOR),
                    lambda: cluster.kill_one(MASTER),
                    cluster.replace_manager,
                ):
                    source.execute(CHANGES)
                    fault()
                    run("receive", source.name, "--once")
                    wait_until(is_equal, timeout_s=180)
            finally:
                replay.terminate()
        assert replay.returncode == 0, log.read_text()
        run("verify", source.name)
