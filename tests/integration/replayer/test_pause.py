"""A source or a table that a person paused is left alone, and goes on where it was."""

from __future__ import annotations

import json
import re
import signal

import pytest

from pgrepl.replayer import ReplaySettings
from tests.support.program import run_pgrepl, write_config
from tests.support.running.pipeline import Pipeline

#: Few changes go without Spark.
QUICK = ReplaySettings(backoff_s=0.01, backoff_limit_s=0.05, lock_timeout_s=0.3)


@pytest.fixture
def pipeline(source, target) -> Pipeline:
    source.execute(
        "create table a (id int primary key)",
        "create table m (id int primary key) partition by range (id)",
        "create table m1 partition of m default",
    )
    made = Pipeline(source, target)
    made.copy()
    return made


@pytest.fixture
def command(pipeline, tmp_path):
    path = write_config(
        tmp_path / "pgrepl.toml",
        pipeline.target.dsn(),
        {pipeline.source.name: pipeline.source.dsn()},
    )

    def run(*arguments, code=0, place=None):
        env = {} if place is None else {"PGREPL_FAILPOINT": f"{place}:kill"}
        done = run_pgrepl(*arguments, "--config", path, env=env)
        assert done.returncode == (code if place is None else -signal.SIGKILL), done.stderr
        return done.stdout

    return run


def follow(pipeline):
    pipeline.receive()
    result = pipeline.replay(QUICK)
    assert (result.error, result.parked) == (None, [])


def status(command, name):
    # No receiver runs, which is no problem.
    return json.loads(command("status", name, "--json"))["sources"][0]


def test_paused_source_changes_nothing_until_it_is_resumed(pipeline, command):
    name = pipeline.source.name
    command("pause", name, "--reason", "a report")
    assert "nothing of source" in command("pause", name)
    pipeline.source.execute("insert into a values (1)", "insert into m values (1)")
    follow(pipeline)
    assert sorted(pipeline.differences()) == ["a", "m1"]
    paused = status(command, name)["paused"]
    assert paused["reason"] == "a report"
    assert "@" in paused["by"]
    assert "paused since" in command("status", name)
    command("resume", name)
    follow(pipeline)
    assert pipeline.differences() == []
    assert status(command, name)["paused"] is None
    assert pipeline.target.rows(
        "select action, table_name from replication.pause_history order by at"
    ) == [("pause", None), ("resume", None)]


def test_paused_table_waits_with_its_changes_and_the_others_go_on(pipeline, command):
    name = pipeline.source.name
    assert "public.m1" in command("pause", name, "public.m")
    pipeline.source.execute("insert into a values (1)", "insert into m values (1)")
    follow(pipeline)
    assert pipeline.differences() == ["m1"]
    (table,) = status(command, name)["tables"]["not_well"]
    assert (table["name"], table["is_paused"], table["parked_changes"]) == ("public.m1", True, 1)
    # Nothing failed, so that cron is not alarmed.
    assert "paused by" in command("parked", "list")
    assert "; 1 change waits" in command("status", name)
    shown = command("parked", "show", name, "public.m1").splitlines()[-1]
    assert re.fullmatch(r"[0-9A-F]+/[0-9A-F]+ [0-9-]+ [0-9:]+Z insert: id", shown)
    rows = command("parked", "show", name, "public.m1", "--show-rows").splitlines()[-1]
    assert rows.endswith('insert: {"id": "1"}')
    (change,) = json.loads(command("parked", "show", name, "public.m1", "--json"))["changes"]
    assert re.fullmatch(r"[0-9-]+T[0-9:]+\.[0-9]{6}Z", change["commit_at"])
    pipeline.source.execute("insert into m values (2)")
    follow(pipeline)
    command("resume", name, "public.m")
    assert pipeline.differences() == []
    follow(pipeline)
    assert pipeline.differences() == []


def test_what_cannot_be_paused_is_a_usage_error(pipeline, command):
    name = pipeline.source.name
    command("pause", name, "public.none", code=2)
    command("resume", name, "public.a", code=2)
    command("pause", name, "nonsense", code=2)
    assert "nothing of source" in command("resume", name)


def test_resume_that_cannot_apply_what_waited_leaves_the_table_parked(pipeline, command):
    name = pipeline.source.name
    command("pause", name, "public.a")
    pipeline.source.execute("insert into a values (1)")
    follow(pipeline)
    pipeline.target.execute(f"insert into {pipeline.schema()}.a values (1)")
    command("resume", name, code=50)
    command("parked", "list", code=50)


def test_killed_after_a_table_goes_on_it_is_known_who_resumed_it(pipeline, command):
    name = pipeline.source.name
    command("pause", name)
    command("pause", name, "public.a", "public.m")
    pipeline.source.execute("insert into a values (1)", "insert into m values (1)")
    follow(pipeline)
    command("resume", name, place="parked.retried")
    resumed = (
        "select table_name::text from replication.pause_history where action = 'resume' order by at"
    )
    assert pipeline.target.rows(resumed) == [("a",)]
    command("resume", name)
    assert pipeline.target.rows(resumed) == [("a",), ("m1",), (None,)]
    follow(pipeline)
    assert pipeline.differences() == []
