"""On a real cluster: executors where nobody installed pgrepl run it all the same."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pgrepl.doctor import Status
from pgrepl.doctor.checks.target.spark_checks import check_closed
from pgrepl.doctor.machine import SparkProbe
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
