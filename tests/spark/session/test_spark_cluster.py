"""On a real cluster: executors where nobody installed pgrepl run it all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Self

import pytest

from pgrepl.doctor import Status
from pgrepl.doctor.checks.target.spark_checks import check_closed
from pgrepl.doctor.machine import SparkProbe
from pgrepl.throwaway.ports import free_port
from tests.support.program import run_pgrepl, write_config
from tests.support.running.copying import copy
from tests.support.running.replaying import checksums
from tests.support.spark.spark_cluster import SparkCluster, bare_python
from tests.support.workloads.workload import make_tables

PROGRAM = """
import json, sys
from pgrepl.config.model import SparkConfig
from pgrepl.spark.session import build_session

def look(_):
    import os, pgrepl, pgrepl.basebackup.rows.task
    from pgrepl.postgres.queries import load_query
    query = load_query("pgrepl.store.tables", "copy_progress")
    return os.getpid(), pgrepl.__file__, query

session = build_session(SparkConfig(**json.load(sys.stdin)), "test")
again = build_session(SparkConfig(master=session.sparkContext.master), "test")
seen = session.sparkContext.parallelize(range(8), 8).map(look).collect()
print(json.dumps([seen, again.sparkContext.listFiles]))
session.stop()
"""

#: Says what a session got; ends with its input.
SETTLED = """
import json, sys, time
from pgrepl.config.model import SparkConfig
from pgrepl.spark.session import build_session

def work(_):
    import time
    time.sleep(0.2)

context = build_session(SparkConfig(**json.loads(sys.stdin.readline())), "test").sparkContext
context.parallelize(range(4), 4).foreach(work)
status = context._jsc.sc().getExecutorMemoryStatus()
places = status.keys().mkString(" ").split()
driver = context.getConf().get("spark.driver.port")
print(json.dumps([driver, places]), flush=True)
for line in sys.stdin:
    while context._jsc.sc().getExecutorMemoryStatus().size() > int(line):
        time.sleep(0.05)
    context.parallelize(range(4), 4).foreach(work)
    print(json.dumps(context._jsc.sc().getExecutorMemoryStatus().size()), flush=True)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    python = bare_python(tmp_path_factory.mktemp("cluster") / "venv")
    with SparkCluster(python=python) as cluster:
        yield cluster


@pytest.mark.soak
def test_executors_get_the_package_and_its_queries_from_the_driver(cluster):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps({"master": cluster.master, "conf": cluster.conf}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen, files = json.loads(done.stdout)
    assert {path.rpartition("/pgrepl.zip/")[2] for _, path, _ in seen} == {"pgrepl/__init__.py"}
    assert all("copy_part" in query for _, _, query in seen)
    assert len({pid for pid, _, _ in seen}) == 2
    assert len(files) == 1


def test_source_is_copied_by_executors_of_a_cluster(source, target, tmp_path):
    make_tables(source)
    # Each worker is two more JVMs.
    with SparkCluster(1, python=bare_python(tmp_path / "venv")) as cluster:
        config = write_config(
            tmp_path / "pgrepl.toml", target.dsn(), {source.name: source.dsn()}, cluster.toml()
        )
        done = run_pgrepl("basebackup", source.name, "--config", config)
    assert done.returncode == 0, done.stderr
    assert checksums(target, f"{source.name}_app") == checksums(source, "app")


@pytest.mark.soak
def test_executors_of_a_cluster_compare(cluster, source, target, tmp_path):
    make_tables(source)
    copy(target, source)
    target.execute(f"delete from {source.name}_app.history")
    config = write_config(
        tmp_path / "pgrepl.toml", target.dsn(), {source.name: source.dsn()}, cluster.toml()
    )
    done = run_pgrepl("verify", source.name, "--config", config, "--wait", "0", "--json")
    assert "history" in done.stdout, done.stderr


@pytest.mark.soak
def test_doctor_sees_that_the_executors_have_what_they_need(cluster):
    probe = SparkProbe(cluster.config)
    finding = probe.finding()
    assert finding.status is Status.OK, finding.message
    closed = check_closed(cluster.config, probe.settings, is_tried=True)
    assert [finding.status for finding in closed] == [Status.OK, Status.OK]


class Session:
    """A program with a session on a cluster."""

    def __init__(self, cluster: SparkCluster, **settings: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SETTLED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        conf = {**cluster.conf, **{f"spark.{key}": value for key, value in settings.items()}}
        self.driver_port, self.places = self.ask({"master": cluster.master, "conf": conf})

    def ask(self, question: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


@pytest.mark.soak
def test_settings_of_the_documentation_do_what_it_says(cluster):
    first_port = free_port()
    ports = {"driver.port": str(first_port), "driver.blockManager.port": str(first_port + 1)}
    one_core = {"cores.max": "1", "executor.cores": "1", "executor.memory": "512m"}
    with Session(cluster, **ports, **one_core) as session:
        assert session.driver_port == str(first_port)
        assert f"127.0.0.1:{first_port + 1}" in session.places
        # The driver and, on two workers of a core each, one executor.
        assert len(session.places) == 2
        # Another program at the same time takes the next ports that are free.
        with Session(cluster, **ports, **one_core) as other:
            used = {int(other.driver_port), *(int(p.rpartition(":")[2]) for p in other.places)}
            assert first_port not in used
            assert int(other.driver_port) in range(first_port + 1, first_port + 17)


@pytest.mark.soak
def test_executors_that_have_nothing_to_do_are_given_back_and_come_again(cluster):
    settings = {"dynamicAllocation.enabled": "true", "dynamicAllocation.executorIdleTimeout": "1s"}
    with Session(cluster, **settings) as session:
        # Once the driver alone is left there is work again.
        assert session.ask(1) > 1
