"""A commit that is in the WAL, and on the target, while no snapshot of the source sees it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.errors import SourceUnavailable
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from pgrepl.resync.whole import run as whole_run
from tests.support.database import Database
from tests.support.running.copying import Recorder
from tests.support.running.pipeline import QUICK, Pipeline
from tests.support.waiting import wait_until
from tests.support.workloads.workload import make_tables

#: Everything is applied by the driver: no Spark is needed for that.
ALONE = replace(QUICK, driver_changes=10**9)


@contextmanager
def held_commit(source: Database, statement: bytes) -> Iterator[int]:
    """Have a transaction wait for a standby that never comes, its commit written."""
    settings = ("synchronous_standby_names", "synchronous_commit")
    source.execute(
        "alter system set synchronous_commit = local",
        "alter system set synchronous_standby_names = 'nobody'",
        "select pg_reload_conf()",
    )
    wait_until(lambda: source.value("show synchronous_standby_names") == "nobody")
    try:
        with psycopg.connect(source.dsn(), autocommit=True) as writer:
            writer.execute("set synchronous_commit = on")
            pid = writer.info.backend_pid
            thread = threading.Thread(target=writer.execute, args=(statement,))
            thread.start()
            wait_until(
                lambda: source.value(
                    f"select wait_event = 'SyncRep' from pg_stat_activity where pid = {pid}"
                )
            )
            try:
                yield pid
            finally:
                source.execute(
                    *(f"alter system reset {name}" for name in settings), "select pg_reload_conf()"
                )
                thread.join(120)
    finally:
        source.execute(
            *(f"alter system reset {name}" for name in settings), "select pg_reload_conf()"
        )


def resync(pipeline: Pipeline, wait_s: int) -> None:
    config = pipeline.config
    options = ResyncOptions(tables=TableSelection.of(["app.accounts"]), wait_s=wait_s)
    source = config.sources[pipeline.source.name]
    copies = TableCopies(config)
    resync_tables(
        *(config, source, options, Recorder()),
        lambda _: copies.apply_waiting(source.name, [("app", "accounts")]),
    )


def test_commit_that_no_snapshot_sees_yet_is_waited_for_or_it_would_be_lost(
    source, target, monkeypatch
):
    make_tables(source)
    pipeline = Pipeline(source, target)
    pipeline.copy()
    with held_commit(source, b"insert into app.accounts values (77777, 0, 'held')") as pid:
        pipeline.apply(ALONE)
        held = f"select count(*) from {pipeline.schema('app')}.accounts where id = 77777"
        assert target.value(held) == 1
        assert source.value("select count(*) from app.accounts where id = 77777") == 0
        with pytest.raises(SourceUnavailable, match=f"may be committing.* pid {pid}"):
            resync(pipeline, wait_s=1)
        assert target.value(held) == 1
        # Who goes by positions alone takes it for copied, as it is before the snapshot's.
        with monkeypatch.context() as control:
            control.setattr(whole_run, "await_commits", lambda *_: None)
            resync(pipeline, wait_s=30)
        assert target.value(held) == 0
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == ["accounts"]
    resync(pipeline, wait_s=30)
    assert pipeline.differences("app") == []
