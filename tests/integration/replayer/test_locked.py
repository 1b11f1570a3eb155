"""A table that another session of the target locks waits alone, and goes on by itself."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from dataclasses import replace

import pytest

from pgrepl.ddl_capture import Applier, install
from pgrepl.replayer import ReplaySettings
from tests.support.program import COMMAND, run_pgrepl, write_config
from tests.support.running.backlog import die_at
from tests.support.running.pipeline import Pipeline
from tests.support.waiting import wait_until

#: Few changes go without Spark.
QUICK = ReplaySettings(
    backoff_s=0.01, backoff_limit_s=0.05, lock_timeout_s=0.3, table_lock_s=0.05, blocker_s=0
)


@pytest.fixture
def pipeline(source, target) -> Pipeline:
    source.execute(
        "create table a (id int primary key, v text)",
        "create table b (id int primary key, v text)",
        "insert into a values (1, 'old')",
        "insert into b values (1, 'old')",
    )
    # All tables in one shard: they share its transaction.
    made = Pipeline(source, target, {"shards": 1})
    made.copy()
    return made


@pytest.fixture
def config(pipeline, tmp_path):
    return write_config(
        tmp_path / "pgrepl.toml",
        pipeline.target.dsn(),
        {pipeline.source.name: pipeline.source.dsn()},
        '[spark]\nmaster = "local[1]"\n',
    )


@contextmanager
def locked(pipeline, statement):
    with pipeline.target.connect() as blocker:
        blocker.execute("begin")
        blocker.execute(statement.format(pipeline.schema()))
        yield blocker.info.backend_pid


def kinds(pipeline):
    return pipeline.target.rows("select table_name::text, kind from replication.parked_table")


def is_equal(pipeline):
    return pipeline.differences() == []


LOCKS = {
    "table": "lock table {}.b",
    "rows": "update {}.b set v = 'mine' where id = 1",
    "index": "lock table {}.b in share mode",
}


@pytest.mark.parametrize("statement", LOCKS.values(), ids=LOCKS.keys())
def test_others_of_the_shard_go_on_while_a_table_is_locked(pipeline, statement):
    pipeline.source.execute(
        "begin; update a set v = 'new'; update b set v = 'new'; insert into b values (2, 'x'); end"
    )
    pipeline.receive()
    with locked(pipeline, statement):
        result = pipeline.replay(QUICK)
        assert (result.error, result.parked) == (None, [])
        assert [name for name, _ in result.locked] == [("public", "b")]
        assert pipeline.target.rows(f"select v from {pipeline.schema()}.a") == [("new",)]
        pipeline.source.execute("update b set v = 'newer'; delete from b where id = 2")
        pipeline.receive()
        assert kinds(pipeline) == [("b", "locked")]
    assert pipeline.replay(QUICK).locked == []
    assert kinds(pipeline) == []
    assert is_equal(pipeline)


def test_service_applies_what_waited_when_the_lock_is_free_and_names_who_had_it(pipeline, config):
    command = [*COMMAND, "replay", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        with locked(pipeline, "lock table {}.b") as pid:
            pipeline.source.execute("update a set v = 'new'; update b set v = 'new'")
            pipeline.receive()
            wait_until(lambda: str(pid) in dict(pipeline.parked()).get("b", ""))
            assert pipeline.target.rows(f"select v from {pipeline.schema()}.a") == [("new",)]
            pipeline.source.execute("update a set v = 'newer'; update b set v = 'newer'")
            pipeline.receive()
            rows = f"select v from {pipeline.schema()}.a"
            wait_until(lambda: pipeline.target.rows(rows) == [("newer",)])
        wait_until(lambda: kinds(pipeline) == [])
        wait_until(lambda: is_equal(pipeline))
        service.terminate()
        assert service.stderr is not None
        said = service.stderr.read()
    assert said.count(f"locked on the target by process {pid}") == 1
    assert "no lock is in the way any more" in said


def test_truncate_waits_alone_for_a_reader(pipeline):
    pipeline.source.execute(
        "truncate b", "insert into b values (9, 'z')", "insert into a values (9, 'z')"
    )
    pipeline.receive()
    with locked(pipeline, "select count(*) from {}.b"):
        result = pipeline.replay(QUICK)
        assert result.error is None
        assert [name for name, _ in result.locked] == [("public", "b")]
        assert pipeline.target.value(f"select count(*) from {pipeline.schema()}.a") == 2
    assert pipeline.replay(QUICK).locked == []
    assert is_equal(pipeline)


def test_batch_consistency_waits_for_the_table(pipeline):
    pipeline.source.execute("begin; update a set v = 'new'; update b set v = 'new'; end")
    pipeline.receive()
    with locked(pipeline, "lock table {}.b"):
        result = pipeline.replay(replace(QUICK, driver_changes=1000), consistency="batch")
        assert f"table {pipeline.schema()}.b" in result.error.message
        assert kinds(pipeline) == []
        assert pipeline.target.rows(f"select v from {pipeline.schema()}.a") == [("old",)]
    assert pipeline.replay(QUICK, consistency="batch").error is None
    assert is_equal(pipeline)


@pytest.mark.parametrize("change", ["update b set v = 'new'", "truncate b"])
def test_batch_consistency_names_who_holds_the_lock(pipeline, change):
    pipeline.source.execute(change)
    pipeline.receive()
    settings = replace(QUICK, table_lock_s=0.3, truncate_lock_s=0.3)
    with locked(pipeline, "lock table {}.b") as pid:
        result = pipeline.replay(settings, consistency="batch")
        assert f"locked by process {pid} (" in result.error.message
        assert f"process {pid} (" in pipeline.target.value(
            "select message from replication.failure"
        )
    assert pipeline.replay(settings, consistency="batch").error is None
    assert is_equal(pipeline)


def test_lock_is_no_reason_to_stop(pipeline):
    pipeline.source.execute("update a set v = 'new'; update b set v = 'new'")
    pipeline.receive()
    with locked(pipeline, "lock table {}.b"):
        assert pipeline.replay(QUICK, on_error="stop").error is None
    assert pipeline.replay(QUICK, on_error="stop").locked == []
    assert is_equal(pipeline)


def test_what_cannot_be_applied_when_the_lock_is_free_is_parked(pipeline):
    pipeline.source.execute("update b set v = 'new'")
    pipeline.receive()
    with locked(pipeline, "lock table {}.b"):
        pipeline.replay(QUICK)
    pipeline.target.execute(f"alter table {pipeline.schema()}.b drop column v")
    result = pipeline.replay(QUICK)
    assert list(result.parked) == [("public", "b")]
    assert kinds(pipeline) == [("b", "failed")]


def test_what_waits_for_long_is_applied_in_steps(pipeline):
    pipeline.source.execute(
        *(f"update b set v = '{number}'" for number in range(20)), "delete from b"
    )
    with locked(pipeline, "lock table {}.b"):
        for _ in range(3):
            pipeline.source.execute("insert into b values (1, 'again')", "delete from b")
            pipeline.receive()
            pipeline.replay(QUICK)
    count = pipeline.target.value("select count(*) from replication.parked_message")
    assert count > 1
    assert pipeline.replay(replace(QUICK, step_bytes=1)).locked == []
    assert is_equal(pipeline)


def test_ddl_on_a_locked_table_waits_with_it_and_goes_on_by_itself(pipeline):
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[pipeline.source.name])
    with locked(pipeline, "lock table {}.b"):
        pipeline.source.execute("insert into b values (2, 'x')")
        pipeline.receive()
        assert pipeline.replay(QUICK).error is None
        pipeline.source.execute(
            "alter table b add w int default 5",
            "insert into b values (3, 'y', 7)",
            "insert into a values (3, 'y')",
        )
        pipeline.receive()
        result = pipeline.replay(QUICK)
        assert (result.error, result.parked, result.waiting_ddl) == (None, [], 0)
        assert pipeline.target.value(f"select count(*) from {pipeline.schema()}.a") == 2
    # Nothing is in the way any more, and how long that takes is not asked.
    result = pipeline.replay(replace(QUICK, table_lock_s=10, lock_timeout_s=10))
    assert (result.error, result.parked, result.locked) == (None, [], [])
    assert is_equal(pipeline)


@pytest.mark.parametrize("place", ["before_release_commit", "after_release_commit"])
def test_killed_while_what_waited_is_applied(pipeline, place):
    pipeline.source.execute("update b set v = 'new'", "insert into b values (2, 'x')")
    pipeline.receive()
    with locked(pipeline, "lock table {}.b"):
        pipeline.replay(QUICK)
    die_at(f"replayer.{place}", lambda: pipeline.replay(QUICK))
    assert is_equal(pipeline) == (place == "after_release_commit")
    assert pipeline.replay(QUICK).locked == []
    assert is_equal(pipeline)


def test_program_says_who_holds_the_lock(pipeline, config):
    path = config
    pipeline.source.execute("update b set v = 'new'")
    pipeline.receive()
    with locked(pipeline, "lock table {}.b") as pid:
        done = run_pgrepl("replay", "--once", "--config", path)
        assert done.returncode == 30, done.stderr
        assert f"process {pid}" in done.stderr
        done = run_pgrepl("status", "--json", "--config", path)
        (status,) = json.loads(done.stdout)["sources"]
        (problem,) = [each for each in status["problems"] if each["kind"] == "locked"]
        assert f"process {pid}" in problem["message"]
        assert status["tables"]["not_well"][0]["parked_kind"] == "locked"
        assert done.returncode == 30
        assert run_pgrepl("parked", "list", "--config", path).returncode == 0
    assert run_pgrepl("replay", "--once", "--config", path).returncode == 0
    assert is_equal(pipeline)
