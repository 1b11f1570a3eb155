"""Nobody waits for Spark: the driver applies a few changes itself, and hands over when it is up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgrepl.replayer import ReplaySettings
from tests.support.machine.listening import family
from tests.support.own_code import ROOT
from tests.support.program import COMMAND, run_pgrepl, write_config
from tests.support.running.backlog import die_at
from tests.support.running.pipeline import Pipeline
from tests.support.waiting import wait_until

#: As the program has it: a few changes do without Spark.
BY_DRIVER = ReplaySettings(backoff_s=0.01, backoff_limit_s=0.05)
NO_JAVA = {"JAVA_HOME": "/nonexistent"}


@dataclass
class Setup:
    pipeline: Pipeline
    config: Path

    def change(self) -> None:
        """Commit some changes over all shards, and receive them."""
        self.pipeline.source.execute(
            *(f"update t{n} set n = n + 1 where id < 5" for n in range(8)),
            *(f"insert into t{n} select max(id) + 1, 0 from t{n}" for n in range(8)),
        )
        self.pipeline.receive()

    def count_events(self, kind: str) -> int:
        """Return how often something stands in the log that Spark keeps of its sessions."""
        return sum(log.count(kind) for log in self.logs())

    def logs(self) -> list[str]:
        """Return the log of each session."""
        folder = self.config.parent / "events"
        return [path.read_text(encoding="utf-8") for path in folder.iterdir()]

    def change_until_spark_works(self, session: int) -> None:
        """Commit changes until a Spark session, the first or the second, has applied some."""

        def has_worked() -> bool:
            self.change()
            # The first job of each starts its workers, while the driver applies.
            return sum(log.count("SparkListenerJobEnd") > 1 for log in self.logs()) >= session

        wait_until(lambda: self.count_events("SparkListenerApplicationStart") >= session, 240)
        wait_until(has_worked, 240)

    def is_applied(self) -> bool:
        return self.pipeline.spool_count() == 0


@pytest.fixture
def setup(source, target, tmp_path, one_spark_session):  # noqa: ARG001  the copy needs it
    for n in range(8):
        source.execute(
            f"create table t{n} (id int primary key, n int)",
            f"insert into t{n} select g, 0 from generate_series(1, 9) g",
        )
    pipeline = Pipeline(source, target)
    pipeline.copy()
    (tmp_path / "events").mkdir()
    more = (
        '[spark]\nmaster = "local[2]"\n[spark.conf]\n'
        f'"spark.eventLog.enabled" = "true"\n"spark.eventLog.dir" = "file://{tmp_path}/events"\n'
        '"spark.eventLog.compress" = "false"\n"spark.eventLog.rolling.enabled" = "false"\n'
    )
    dsn = target.dsn(password="s3cret-of-the-target")
    config = write_config(tmp_path / "pgrepl.toml", dsn, {source.name: source.dsn()}, more)
    return Setup(pipeline, config)


@contextmanager
def service(
    config: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    command = [*COMMAND, "replay", "--config", str(config)]
    log = config.with_name("log")
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stderr=errors, env={**os.environ, **(env or {})}) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def find_java(pid: int) -> list[int]:
    """Return the JVMs below a process."""
    found = []
    for member in family(pid):
        with suppress(OSError):
            if Path(f"/proc/{member}/comm").read_text().strip() == "java":
                found.append(member)
    return found


def is_gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_handful_of_changes_is_applied_without_java(setup):
    setup.change()
    done = run_pgrepl("replay", "--once", "--config", setup.config, env=NO_JAVA)
    assert done.returncode == 0, done.stderr
    assert "Spark" not in done.stderr
    assert setup.pipeline.differences() == []
    assert setup.is_applied()


def test_many_changes_are_sparks_and_no_secret_is_in_its_log(setup):
    setup.change()
    setup.pipeline.source.execute("insert into t0 select g, 0 from generate_series(1000, 12000) g")
    setup.pipeline.receive()
    done = run_pgrepl("replay", "--once", "--config", setup.config, env=NO_JAVA)
    assert done.returncode == 10, done.stderr
    assert "Spark does not start on local[2]" in done.stderr
    done = run_pgrepl("replay", "--once", "--config", setup.config)
    assert done.returncode == 0, done.stderr
    assert setup.pipeline.differences() == []
    assert setup.count_events(f"{setup.pipeline.source.name} 0/") > 0
    assert setup.count_events("s3cret") == 0
    assert "s3cret" not in done.stderr + done.stdout


def test_service_without_java_ends_with_the_code_of_a_bad_configuration(setup):
    with service(setup.config, NO_JAVA) as process:
        assert process.wait(60) == 10
    assert "Spark does not start on local[2]" in setup.config.with_name("log").read_text()


def test_service_that_is_stopped_while_spark_starts_leaves_no_java(setup):
    with service(setup.config) as process:
        pids = wait_until(lambda: find_java(process.pid))
        process.terminate()
        assert process.wait(60) == 0
    wait_until(lambda: is_gone(pids))
    log = setup.config.with_name("log").read_text()
    assert "Traceback" not in log
    assert "error" not in log


def test_service_applies_before_spark_is_up_by_spark_and_when_its_jvm_has_died(setup):
    setup.change()
    with service(setup.config) as process:
        # One that is killed while it starts costs nothing but another start.
        for starting in wait_until(lambda: find_java(process.pid)):
            os.kill(starting, signal.SIGKILL)
        wait_until(setup.is_applied)
        # Whatever Spark did by then was no batch.
        assert setup.count_events(f"{setup.pipeline.source.name} 0/") == 0
        setup.change_until_spark_works(1)
        # The one that has become of Spark's script, not the one that it asked before.
        (java,) = find_java(process.pid)
        os.kill(java, signal.SIGKILL)
        setup.change()
        wait_until(setup.is_applied, 240)
        setup.change_until_spark_works(2)
        wait_until(setup.is_applied)
        process.terminate()
        assert process.wait(60) == 0
    assert setup.pipeline.differences() == []


def test_batch_of_its_own_is_repeated_when_spark_has_ended_before_it():
    """It asks how many cores Spark has, to leave one of them to the batches of other sources."""
    script = """
import os, signal, threading
from pgrepl.config.model import SparkConfig
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.spark_job import JobFailed, ShardJobs
from tests.spark.replay.test_replay_start import find_java
jobs = ShardJobs(SparkConfig(master="local[2]"), ReplaySettings())
assert jobs.wait(20_000, threading.Event())
(java,) = find_java(os.getpid())
os.kill(java, signal.SIGKILL)
try:
    jobs.run([], 20_000, is_alone=True)
except JobFailed:
    print("repeated")
jobs.stop()
"""
    command = [sys.executable, "-c", script]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
    assert done.stdout == "repeated\n", done.stderr


@pytest.mark.soak
def test_service_killed_after_its_first_job_leaves_no_java_and_counts_all_once(setup):
    with service(setup.config, {"PGREPL_FAILPOINT": "replayer.after_job:kill"}) as process:
        pids = wait_until(lambda: find_java(process.pid))
        wait_until(lambda: setup.count_events("SparkListenerApplicationStart"), 90)
        wait_until(lambda: [setup.change(), process.poll()][1], 90)
        assert process.returncode == -signal.SIGKILL
    wait_until(lambda: is_gone(pids))
    assert not setup.is_applied()
    setup.pipeline.apply()
    assert setup.pipeline.differences() == []


@pytest.mark.parametrize(
    "place", ["fenced", "before_commit", "after_commit", "before_finish", "after_finish"]
)
def test_driver_killed_while_it_applies_by_itself(backlog, place):
    die_at(f"replayer.{place}", lambda: backlog.replay(BY_DRIVER))
    result = backlog.replay(BY_DRIVER)
    assert result.error is None
    assert result.parked == []
    assert backlog.differences() == []
    assert backlog.spool_count() == 0
