"""What cannot be applied stays where it is; corruption is noticed before any of it is applied."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from pgrepl.ddl_capture import Applier
from pgrepl.errors import DdlError, PgreplError, SpoolError
from pgrepl.replayer.parked.work_off import retry_table
from pgrepl.replayer.session import open_session
from pgrepl.replayer.shard.shard_result import ShardResult
from pgrepl.replayer.shard.task import run_shard
from pgrepl.store.parked import list_parked
from tests.support.running.backlog import TABLES, control, plan
from tests.support.running.pipeline import QUICK, Pipeline
from tests.support.running.replaying import checksums
from tests.support.waiting import wait_until


def others(name):
    return [table for table in TABLES if table != name]


def retry(backlog, name):
    """Do what ``pgrepl parked retry`` does."""
    endpoint = backlog.config.target.endpoint
    with open_session(endpoint, QUICK) as connection:
        (table,) = [t for t in list_parked(connection) if t.table == name]
        ddl = Applier(backlog.config)
        return retry_table(connection, backlog.config, table, ddl, QUICK)


def conflicts(backlog):
    return backlog.target.rows(
        "select table_name::text, missing_count, extra_count from replication.conflict"
    )


@pytest.mark.usefixtures("one_spark_session")
@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_replica_identity_that_changes_without_capture_harms_no_other(source, target, consistency):
    source.execute(
        "create table t (id int primary key, code int not null unique, v text)",
        "insert into t select g, g + 100, 'x' from generate_series(1, 9) g",
        "create table u (id int primary key, v text); insert into u values (1, 'x')",
    )
    pipeline = Pipeline(source, target, {"consistency": consistency})
    pipeline.copy()
    source.execute(
        "update t set v = 'a' where id < 3",
        "alter table t replica identity using index t_code_key",
        "update t set v = 'b' where id in (2, 4); delete from t where id = 5",
        "update t set id = 50, code = 500 where id = 6",
        "alter table t replica identity full",
        "update t set v = 'c' where id in (2, 7); insert into t values (10, 110, 'n')",
        "alter table t replica identity default",
        "update t set v = 'd', id = 80 where id = 8; update u set v = 'y'",
    )
    pipeline.receive()
    result = pipeline.replay()
    assert result.error is None
    if consistency == "shard":
        assert (result.parked, pipeline.differences()) == ([], [])
    else:
        # One staging table has one key.
        assert (result.parked, pipeline.differences()) == ([("public", "t")], ["t"])
        ((_, reason),) = pipeline.parked()
        assert "replica identity changed" in reason


def test_exception_of_any_class_is_that_tables(backlog, monkeypatch):
    def fold(*_arguments, **_options):
        raise KeyError("s3cret")

    monkeypatch.setattr("pgrepl.replayer.shard.fold._fold_keyed", fold)
    _, tasks = plan(backlog)
    results = list(map(run_shard, tasks))
    assert {type(result) for result in results} == {ShardResult}
    parked = dict(backlog.parked())
    assert parked
    assert all("KeyError at test_replay_faults.py" in reason for reason in parked.values())
    assert "s3cret" not in str(parked)


def test_exception_outside_of_tables_is_that_sources(backlog, monkeypatch):
    def read_chunks(*_arguments, **_options):
        raise KeyError("s3cret")

    monkeypatch.setattr("pgrepl.replayer.shard.task.read_chunks", read_chunks)
    _, tasks = plan(backlog)
    error = run_shard(tasks[0])
    assert isinstance(error, SpoolError)
    assert "KeyError" in error.message
    assert "s3cret" not in error.message


def test_table_that_somebody_locks_is_named_and_applied_later(backlog):
    with backlog.target.connect() as blocker:
        blocker.execute(f"begin; lock table {backlog.schema()}.b")
        result = backlog.replay()
        assert result.error is None
        ((name, reason),) = result.locked
    assert name == ("public", "b")
    assert "another session holds a lock" in reason or "locked on the target by" in reason
    assert backlog.replay().locked == []
    assert backlog.differences() == []
    assert backlog.parked() == []


@pytest.mark.parametrize("consistency", ["shard", "batch"])
@pytest.mark.parametrize(
    ("meddle", "found"),
    [
        ("delete from {}.b where id = 21", ("b", 1, 0)),
        ("insert into {}.b values (101, 0, 'mine')", ("b", 0, 1)),
    ],
    ids=["missing", "extra"],
)
def test_row_that_is_not_as_expected_parks_its_table(backlog, consistency, meddle, found):
    backlog.target.execute(meddle.format(backlog.schema()))
    result = backlog.replay(consistency=consistency)
    assert result.error is None
    assert result.parked == [("public", "b")]
    assert conflicts(backlog) == [found]
    assert backlog.differences() == ["b"]
    assert backlog.spool_count() == 0


@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_rows_that_are_not_as_expected_can_be_settled(backlog, consistency):
    backlog.target.execute(
        f"delete from {backlog.schema()}.b where id in (21, 35)",
        f"insert into {backlog.schema()}.b values (101, 0, 'mine')",
        f"delete from {backlog.schema()}.c where id = 2",
    )
    result = backlog.replay(consistency=consistency, on_conflict="apply")
    assert result.error is None
    assert result.parked == []
    assert backlog.differences() == []
    assert sorted(conflicts(backlog)) == [("b", 2, 1), ("c", 1, 0)]


BREAKS = {
    "column dropped": (
        "alter table {}.b drop column note",
        "alter table {}.b add column note text; update {}.b set note = 'old'",
        'no column "note"',
    ),
    "type changed": (
        "alter table {}.b alter note type int using 0",
        "alter table {}.b alter note type text using 'old'",
        "has another type",
    ),
    "type changed to what fits": (
        "alter table {}.b alter n type smallint, add check (n < 42)",
        "alter table {}.b drop constraint b_n_check, alter n type int",
        "violates check constraint",
    ),
    "constraint added": (
        "alter table {}.b add constraint mine check (note <> 'new 3')",
        "alter table {}.b drop constraint mine",
        'violates check constraint "mine"',
    ),
    "table dropped": (
        "alter table {}.b rename to away",
        "alter table {}.away rename to b",
        "no such table",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_table_that_somebody_changed_is_parked_and_goes_on_when_mended(backlog, name, consistency):
    break_it, fix_it, reason = BREAKS[name]
    schema = backlog.schema()
    backlog.target.execute(break_it.replace("{}", schema))
    settings = replace(QUICK, step_bytes=1, chunk_bytes=1000)
    result = backlog.replay(settings, consistency=consistency)
    assert result.error is None
    ((parked, why),) = backlog.parked()
    assert parked == "b"
    assert reason in why
    backlog.target.execute(fix_it.replace("{}", schema))
    assert backlog.differences() == ["b"]
    retry(backlog, "b")
    assert backlog.differences() == []
    history = backlog.target.rows("select action from replication.parked_history order by entry")
    assert history == [("park",), ("retry",)]


def test_table_that_is_truncated_while_it_is_gone_is_truncated_when_it_is_back(backlog):
    schema = backlog.schema()
    backlog.target.execute(
        # Nothing but the TRUNCATE and what follows is left for it.
        "delete from replication.raw_messages where kind = 'parallel' and seq < (select min(seq)"
        " from replication.raw_messages where kind = 'serial')",
        f"alter table {schema}.g rename to away",
    )
    backlog.replay(on_conflict="apply")
    assert [name for name, _ in backlog.parked()] == ["g"]
    backlog.target.execute(f"alter table {schema}.away rename to g")
    retry(backlog, "g")
    assert "g" not in backlog.differences()


def test_table_that_cannot_be_truncated_is_parked_and_goes_on_when_mended(backlog):
    schema = backlog.schema()
    backlog.target.execute(
        f"create function {schema}.refuse() returns trigger language plpgsql"
        " as $$ begin raise 'not this one'; end $$",
        f"create trigger refuse before truncate on {schema}.g execute function {schema}.refuse()",
        f"alter table {schema}.g enable always trigger refuse",
    )
    result = backlog.replay()
    assert result.error is None
    assert backlog.parked() == [("g", "not this one")]
    assert backlog.differences() == ["g"]
    with pytest.raises(DdlError, match="not this one"):
        retry(backlog, "g")
    backlog.target.execute(f"drop function {schema}.refuse() cascade")
    retry(backlog, "g")
    assert backlog.differences() == []


def test_truncate_behind_a_change_that_cannot_be_applied_waits_with_it(source, target):
    source.execute(
        "create table a (id int primary key)",
        "create table b (id int primary key)",
        "insert into a values (1)",
        "insert into b values (1)",
    )
    pipeline = Pipeline(source, target)
    pipeline.copy()
    target.execute(f"alter table {pipeline.schema()}.a add constraint mine check (id <> 2)")
    source.execute(
        "begin; insert into a values (2); truncate a, b;"
        " insert into a values (3); insert into b values (3); commit"
    )
    pipeline.receive()
    assert pipeline.replay().error is None
    assert [name for name, _ in pipeline.parked()] == ["a"]
    # What was there when it was parked is there still.
    assert target.rows(f"select id from {pipeline.schema()}.a") == [(1,)]
    assert pipeline.differences() == ["a"]
    target.execute(f"alter table {pipeline.schema()}.a drop constraint mine")
    retry(pipeline, "a")
    assert pipeline.differences() == []


@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_stop_ends_at_the_table(backlog, consistency):
    backlog.target.execute(f"alter table {backlog.schema()}.b add check (note <> 'new 3')")
    with pytest.raises(DdlError, match=r"table public\.b: new row") as stopped:
        backlog.replay(on_error="stop", consistency=consistency)
    assert stopped.value.exit_code == 50
    assert backlog.parked() == []
    assert "b" in backlog.differences()
    assert backlog.spool_count() > 0


def test_statement_that_somebody_cancels_parks_nothing(backlog):
    _, tasks = plan(backlog)
    (task,) = [task for task in tasks if backlog_table(backlog, "b") in task.buckets]
    with backlog.target.connect() as blocker, backlog.target.connect() as operator:
        blocker.execute(f"begin; lock table {backlog.schema()}.b")
        settings = replace(QUICK, lock_timeout_s=30)
        results: list[ShardResult | PgreplError] = []
        thread = threading.Thread(
            target=lambda: results.append(run_shard(replace(task, settings=settings)))
        )
        thread.start()
        wait_until(
            lambda: operator.execute(
                "select pg_cancel_backend(pid) from pg_stat_activity"
                " where application_name = 'pgrepl-replay' and wait_event_type = 'Lock'"
            ).fetchall()
        )
        thread.join()
    assert not isinstance(results[0], ShardResult)
    assert backlog.parked() == []


def backlog_table(backlog, name):
    return backlog.target.value(
        f"select bucket from replication.table_bucket where table_name = '{name}'"
    )


DAMAGES = {
    "truncated": "update replication.raw_messages set payload ="
    " substr(payload, 1, length(payload) - 20)",
    "line lost": "update replication.raw_messages set payload ="
    " convert_to(regexp_replace(convert_from(payload, 'UTF8'), E'\\n[^\\n]*$', ''), 'UTF8')",
    "not JSON": "update replication.raw_messages set payload ="
    " convert_to(replace(convert_from(payload, 'UTF8'), '\"name\"', 'name'), 'UTF8')",
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_nothing_of_a_damaged_row_is_applied(backlog, name, consistency):
    """Nor of any transaction with it, whatever shard it is in."""
    bucket = backlog_table(backlog, "b")
    where = f"seq = 3 and bucket = {bucket} returning first_lsn::text"
    corrupted = backlog.target.value(f"{DAMAGES[name]} where {where}")
    result = backlog.replay(consistency=consistency)
    assert isinstance(result.error, SpoolError)
    assert result.error.exit_code == 40
    applied = [
        table
        for table in TABLES
        if backlog.target.value(
            f"select exists (select from {backlog.schema()}.{table} where note = 'new 2')"
        )
    ]
    assert applied == []
    # Nobody is told that the target shows it.
    assert not backlog.target.value(
        f"select exists (select from replication.binding where lsn > '{corrupted}')"
    )
    assert backlog.spool_count() > 0


@pytest.mark.parametrize("consistency", ["shard", "batch"])
def test_damage_that_leaves_the_length_is_seen_by_its_own_shard(backlog, consistency):
    """What other shards had of the transaction may be applied then, but is never published."""
    where = f"seq = 3 and bucket = {backlog_table(backlog, 'b')} returning first_lsn::text"
    corrupted = backlog.target.value(
        "update replication.raw_messages set payload ="
        " convert_to(replace(convert_from(payload, 'UTF8'), '\"name\"', '\"nAme\"'), 'UTF8')"
        f" where {where}"
    )
    result = backlog.replay(consistency=consistency)
    assert isinstance(result.error, SpoolError)
    new = f"select exists (select from {backlog.schema()}.%s where note = 'new 2')"
    assert not backlog.target.value(new % "b")
    assert consistency == "shard" or not backlog.target.value(new % "a")
    assert not backlog.target.value(
        f"select exists (select from replication.binding where lsn > '{corrupted}')"
    )


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            "delete from replication.raw_messages where (seq, part) = (3, 0)",
            "segment 3 has 3 rows, 4 were written",
        ),
        (
            "delete from replication.raw_messages where (seq, part) = (3, 3)",
            "the last row of segment 3 is missing",
        ),
        ("delete from replication.raw_messages where seq = 3", "segment 3 is missing"),
        ("delete from replication.raw_messages where seq > 3", "segment 4 is missing"),
        ("delete from replication.raw_messages", "segment 1 is missing"),
    ],
    ids=["row", "last row", "segment", "last segments", "all"],
)
def test_missing_rows_of_the_spool_are_an_error(backlog, damage, said):
    with control(backlog) as connection:
        plan(backlog)
        connection.execute(damage.encode())
    result = backlog.replay()
    assert isinstance(result.error, SpoolError)
    assert said in result.error.message


def test_rows_that_an_older_receiver_wrote_are_applied(backlog):
    backlog.target.execute("update replication.raw_messages set is_last = null")
    assert backlog.replay().error is None
    assert backlog.differences() == []


def test_source_that_is_damaged_leaves_everything_applied_before_it(backlog):
    backlog.target.execute("delete from replication.raw_messages where seq = 3")
    before = checksums(backlog.target, backlog.schema())
    backlog.replay(replace(QUICK, batch_segments=1))
    assert checksums(backlog.target, backlog.schema()) != before
    applied = backlog.target.rows("select distinct applied_seq from replication.shard_progress")
    assert applied == [(2,)]


def test_table_that_nobody_copied_is_made_known(backlog):
    backlog.target.execute("delete from replication.source_table where table_name = 'b'")
    assert backlog.replay().error is None
    state, reason = backlog.target.rows(
        "select state, resync_reason from replication.source_table where table_name = 'b'"
    )[0]
    assert state != "ready"
    assert "never copied" in reason
    assert backlog.differences() == ["b"]


def test_no_value_of_a_row_is_in_what_is_said(backlog):
    backlog.target.execute(
        f"alter table {backlog.schema()}.b alter note type int using 0",
        f"alter table {backlog.schema()}.c add check (note <> 'new 2')",
    )
    backlog.replay()
    said = [reason for _, reason in backlog.parked()]
    assert len(said) == 2
    assert not any("new" in text.replace("new row", "") for text in said)
