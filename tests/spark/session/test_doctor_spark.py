"""Spark as doctor tries it."""

from __future__ import annotations

import contextlib
import threading
import uuid
from pathlib import Path

import pytest

from pgrepl.config.model import SparkConfig
from pgrepl.doctor import Finding, Status
from pgrepl.doctor.machine import SparkProbe


def test_local_session_starts_and_its_workers_see_pgrepl():
    finding = SparkProbe(SparkConfig()).finding()
    assert finding.status is Status.OK, finding.message
    assert "workers see pgrepl" in finding.message


@pytest.mark.parametrize(
    "config",
    [
        SparkConfig(master="nonsense"),
        SparkConfig(conf={"spark.driver.extraJavaOptions": "-Xmxlots", "spark.token": "lots"}),
    ],
    ids=["master", "conf"],
)
def test_session_that_does_not_start_is_a_failure_that_shows_no_setting(config):
    finding = SparkProbe(config).finding()
    assert finding.status is Status.FAILURE
    assert config.master in finding.message
    assert "lots" not in finding.message
    assert finding.remedy is not None


@pytest.mark.soak
def test_workers_that_run_another_python_are_found_out(tmp_path, monkeypatch):
    # A Python without our packages, as on a cluster where nobody installed them.
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\nexec /usr/bin/env python3 -I -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    finding = SparkProbe(SparkConfig()).finding()
    assert finding.status is Status.FAILURE


def test_secret_settings_reach_spark_but_not_the_list_of_processes():
    word = f"s3cr3t{uuid.uuid4().hex}"
    secret = f"{word} \\ : =ü"
    url = f"https://ada:{word}@proxy:8080"
    conf = {"spark.some.password": secret, "spark.some.proxy": url}
    probe = SparkProbe(SparkConfig(conf=conf))
    seen: set[str] = set()
    outcome: list[Finding] = []
    waiting = threading.Thread(target=lambda: outcome.append(probe.finding()))
    waiting.start()
    while waiting.is_alive():
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                seen.add(file.read_bytes().decode(errors="replace"))
        # Spark's processes live for seconds: to look all the time would only slow them down.
        waiting.join(0.02)
    assert outcome[0].status is Status.OK, outcome[0].message
    assert any("pgrepl.doctor.spark_job" in line for line in seen)
    assert any("org.apache.spark" in line for line in seen)
    assert [line for line in seen if word in line] == []
