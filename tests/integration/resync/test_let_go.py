"""Tables that others let go, lock or rename while they are copied: no other one waits for them."""

from __future__ import annotations

import threading

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.errors import TargetError, TargetLocked
from pgrepl.postgres.connect import connect
from pgrepl.resync import Resyncer
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from pgrepl.store.sources import find_source
from tests.support.meanwhile import again, meanwhile
from tests.support.running.backlog import die_at
from tests.support.running.copying import Recorder
from tests.support.running.overtaking import (
    HAPPENINGS,
    SWAP,
    begin,
    follow,
    half_copied,
    left,
    resync,
)
from tests.support.running.pipeline import ALONE, Pipeline


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr("pgrepl.resync.chunked.run.FIRST_LIMIT", 20)
    monkeypatch.setattr("pgrepl.resync.chunked.run.next_limit", lambda *_: 20)


@pytest.fixture
def pipeline(source, target) -> Pipeline:
    return begin(source, target)


@pytest.mark.parametrize("kind", ["by hand", "by replay"])
def test_table_that_goes_on_before_its_resync_ends_keeps_no_other_one_waiting(pipeline, kind):
    config, source, target = pipeline.config, pipeline.source, pipeline.target
    (source_id,) = target.rows("select source_id from replication.source")[0]
    if kind == "by replay":
        # It waits for a lock of another session, which is free by now.
        target.execute(
            "insert into replication.parked_table (source_id, schema_name, table_name, kind,"
            f" reason) values ({source_id}, 'app', 't', 'locked', 'a test')"
        )

    def go_on() -> None:
        source.execute("update app.t set n = -1", "update app.v set n = -2")
        follow(pipeline)
        if kind == "by hand":
            TableCopies(config).apply_waiting(source.name, [("app", "t")])
        assert [name for name, _ in pipeline.parked()] == ["v"]

    report = resync(pipeline, "app.t", "app.v", at={"changes that waited": go_on})
    assert sorted(table.table_name for table in report.tables) == ["t", "v"]
    resync(pipeline, "app.fresh")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []


def test_table_in_chunks_that_is_locked_waits_alone_and_goes_on_in_chunks(
    pipeline, monkeypatch, caplog
):
    config, source, target = pipeline.config, pipeline.source, pipeline.target
    monkeypatch.setattr("pgrepl.resync.chunked.run.TOLD_AFTER_S", 0.1)
    half_copied(pipeline, "t")
    with target.connect() as holder:
        holder.autocommit = False
        # As CREATE INDEX has it.
        holder.execute(f"lock table {pipeline.schema('app')}.t in share mode".encode())
        source.execute("update app.t set n = -1", "delete from app.t where id = 5")
        source.execute("update app.v set n = -2")
        follow(pipeline)
        assert target.value(f"select min(n) = max(n) from {pipeline.schema('app')}.v")
        parked = "select table_name::text, kind from replication.parked_table"
        assert target.rows(parked) == [("t", "locked")]

        def pause(seconds: float) -> None:
            if "a lock on the copy of app.t" in caplog.text:
                holder.rollback()
            follow(pipeline)
            threading.Event().wait(seconds)

        chosen = TableSelection.of(["app.t"])
        options = ResyncOptions(tables=chosen, way="chunked", wait_s=20, pause=pause)
        resync_tables(config, config.sources[source.name], options, Recorder())
        assert "a lock on the copy of app.t" in caplog.text
    resync(pipeline, "app.fresh")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []


def test_due_table_that_is_locked_when_its_copy_is_killed_waits_alone(pipeline):
    config, source, target = pipeline.config, pipeline.source, pipeline.target
    for name in ("t", "v"):
        target.execute(
            "insert into replication.resync_due (source_id, schema_name, table_name, reason)"
            f" select source_id, 'app', '{name}', 'a test' from replication.source"
        )
    half_copied(pipeline, "t")
    due = "select table_name::text from replication.resync_due"
    resyncer = Resyncer(config, backoff_s=0)
    with target.connect() as holder, connect(config.target.endpoint, "test") as control:
        row = find_source(control, source.name)
        assert row is not None
        holder.autocommit = False
        holder.execute(f"lock table {pipeline.schema('app')}.t in share mode".encode())
        source.execute("update app.t set n = -1", "update app.v set n = -2")
        follow(pipeline)
        assert pipeline.parked() == [("t", "locked on the target by another session")]
        resyncer.finish(control, row)
        assert target.rows(due) == [("t",)]
        holder.rollback()
        follow(pipeline)
        assert pipeline.parked() == []
        with meanwhile(again(lambda: follow(pipeline), 0.05)):
            assert resyncer.finish(control, row)
    resync(pipeline, "app.fresh")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []


def test_table_that_goes_on_when_it_is_killed_is_not_copied_once_more(pipeline):
    source, target = pipeline.source, pipeline.target
    target.execute(
        "insert into replication.resync_due (source_id, schema_name, table_name, reason)"
        " select source_id, 'app', 't', 'a test' from replication.source"
    )
    source.execute("update app.t set n = -1")
    die_at("parked.retried", lambda: resync(pipeline, "app.t"))
    assert target.rows("select from replication.resync_due") == []
    assert left(pipeline) == []
    resync(pipeline, "app.fresh")
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []


def test_batch_waits_for_the_lock_of_a_table_in_chunks_as_for_any_other(pipeline):
    """As `consistency = "batch"` promises; nothing is parked, and nothing is applied twice."""
    source, target = pipeline.source, pipeline.target
    half_copied(pipeline, "t")
    pipeline.options = {"consistency": "batch"}
    values = f"select distinct n from {pipeline.schema('app')}.v"
    with target.connect() as holder:
        holder.autocommit = False
        holder.execute(f"lock table {pipeline.schema('app')}.t in share mode".encode())
        source.execute("update app.v set n = -3", "update app.t set n = n - 100")
        pipeline.receive()
        result = pipeline.replay(ALONE)
        assert isinstance(result.error, TargetLocked)
        assert pipeline.parked() == []
        assert len(target.rows(values)) == 60
    pipeline.apply(ALONE)
    assert target.rows(values) == [(-3,)]
    resync(pipeline, "app.t", way="chunked")
    resync(pipeline, "app.fresh")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []


@pytest.mark.parametrize("statements", [SWAP, HAPPENINGS["renamed"]], ids=["swapped", "renamed"])
def test_ddl_of_a_transaction_that_was_open_for_long_is_waited_for(pipeline, statements):
    """What has committed meanwhile is applied, beyond where the DDL stands in the WAL."""
    source, name = pipeline.source, "t" if statements is SWAP else "u"
    source.execute("create table app.o (id int primary key)")
    follow(pipeline)
    with source.connect() as migration:
        migration.autocommit = False
        for statement in statements:
            migration.execute(statement.format("t").encode())
        source.execute("insert into app.o values (1)")
        follow(pipeline)
        migration.commit()
    with pytest.raises(TargetError, match="is still called"):
        resync(pipeline, f"app.{name}")
    follow(pipeline)
    resync(pipeline, f"app.{name}", "app.fresh")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []


def test_ddl_of_which_nothing_is_known_is_waited_for_until_replay_has_passed_it(pipeline):
    """However much is written to the source meanwhile."""
    config, source, target = pipeline.config, pipeline.source, pipeline.target
    source.execute("alter table app.v add m int")
    follow(pipeline)
    target.execute(
        "delete from replication.ddl_history", f"alter table {pipeline.schema('app')}.t drop body"
    )
    copies = TableCopies(config)
    source.execute("update app.v set n = 100")
    with pytest.raises(TargetError, match="has other columns"):
        copies.copy(source.name, [("app", "t")], lambda _: None)
    follow(pipeline)
    source.execute("update app.v set n = 200")
    copies.copy(source.name, [("app", "t")], lambda _: None)
    resync(pipeline, "app.fresh")
    pipeline.apply(ALONE)
    assert left(pipeline) == []
    assert pipeline.differences("app") == []
