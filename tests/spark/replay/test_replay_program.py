"""The program: its exit codes, what it says, and a target that goes away."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import IO

import pytest

from pgrepl.errors import PgreplError
from pgrepl.postgres.advisory_locks import copy_lock, find_holder, take_lock
from pgrepl.replayer.spark_job import ShardJobs
from pgrepl.store.resync.resync_queue import mark_due
from pgrepl.throwaway import Cluster
from tests.support.program import COMMAND, run_pgrepl, write_config
from tests.support.running.backlog import control
from tests.support.waiting import wait_until


@pytest.fixture
def config(backlog, tmp_path):
    sources = {backlog.source.name: backlog.source.dsn()}
    more = '[spark]\nmaster = "local[2]"\n'
    return write_config(tmp_path / "pgrepl.toml", backlog.target.dsn(), sources, more)


def test_program_applies_the_spool_and_says_how_much(backlog, config):
    done = run_pgrepl("replay", "--once", "--json", "--config", config)
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(done.stdout)
    assert report["source"] == "backlog"
    assert report["parked"] == []
    assert report["error"] is None
    assert backlog.differences() == []
    again = run_pgrepl("replay", "--once", "--config", config)
    assert again.returncode == 0, again.stderr
    assert "0 changes in 0 batches" in again.stdout


def test_second_replayer_exits_75(backlog, config):
    with control(backlog) as connection:
        take_lock(connection, "replay")
        done = run_pgrepl("replay", "--once", "--config", config)
    assert done.returncode == 75, done.stderr


def test_parked_table_is_exit_code_50(backlog, config):
    backlog.target.execute(f"delete from {backlog.schema()}.b where id = 21")
    backlog.replay()
    done = run_pgrepl("replay", "--once", "--config", config)
    assert done.returncode == 50, done.stderr
    assert "tables are parked: backlog: public.b" in done.stderr


def test_service_that_is_stopped_exits_0_whatever_is_parked(backlog, config):
    backlog.target.execute(f"delete from {backlog.schema()}.b where id = 21")
    assert backlog.replay().parked == [("public", "b")]
    command = [*COMMAND, "replay", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        assert any("replaying" in line for line in service.stderr)
        service.terminate()
        said = service.stderr.read()
    assert service.returncode == 0, said


def test_source_that_is_added_to_the_file_is_taken_up_by_a_running_service(backlog, config):
    whole = config.read_text()
    config.write_text(whole.replace("[sources.backlog]", "[sources.other]"))
    command = [*COMMAND, "replay", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        wait_until(lambda: find_replayer(backlog))
        config.write_text(whole)
        said = read_to(service.stderr, "changed configuration")
        # It comes between two replayers.
        service.send_signal(signal.SIGHUP)
        # It is few changes, which do not wait for Spark.
        wait_until(lambda: backlog.differences() == [])
        config.write_text(whole.replace("[spark]", "[replay]\nbatch_seconds = 9\n[spark]"))
        said += read_to(service.stderr, "changed configuration")
        said += read_to(service.stderr, "replaying")
        service.terminate()
        said += service.stderr.read()
    assert service.returncode == 0, said
    # It is not started again with each source that comes.
    assert said.count("starting Spark") == 1


def read_to(lines: IO[str], text: str) -> str:
    """Return what is said, up to a line."""
    said = ""
    for line in lines:
        said += line
        if text in line:
            return said
    raise AssertionError(said)


def find_replayer(backlog):
    with control(backlog) as connection:
        return find_holder(connection, "replay") is not None


def test_table_that_is_still_to_be_copied_again_is_exit_code_50(backlog, config):
    backlog.replay()
    source_id = backlog.target.value("select source_id from replication.source")
    with control(backlog) as person:
        mark_due(person, source_id, ("public", "b"), "random()")
        take_lock(person, copy_lock("backlog"))
        done = run_pgrepl("replay", "--once", "--config", config)
    assert done.returncode == 50, done.stderr
    assert "tables wait to be copied again: backlog: public.b" in done.stderr


def test_damaged_spool_is_exit_code_40(backlog, config):
    backlog.target.execute("delete from replication.raw_messages where seq = 2")
    backlog.target.execute("delete from replication.raw_messages where seq = 1 and part = 0")
    done = run_pgrepl("replay", "--once", "--config", config)
    assert done.returncode == 40, done.stderr
    assert "the spool is corrupted: segment 1 has 3 rows, 4 were written" in done.stderr


@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_target_that_crashes_between_tasks_and_their_end(backlog, monkeypatch, consistency):
    real = ShardJobs.run
    restarts: list[Cluster] = []

    def run(jobs, tasks, count, **how):
        results = real(jobs, tasks, count, **how)
        if not restarts:
            # What was staged in unlogged tables is lost after this.
            restarts.append(backlog.target.cluster)
            backlog.target.cluster.restart("immediate")
        return results

    monkeypatch.setattr(ShardJobs, "run", run)
    with pytest.raises(PgreplError):
        backlog.replay(consistency=consistency)
    result = backlog.replay(consistency=consistency)
    assert result.error is None
    assert backlog.parked() == []
    assert backlog.differences() == []
