"""What transactions changed before a table was published is not sent: copies wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.decoding.pgoutput.stream import publication_names
from pgrepl.errors import SourceUnavailable
from pgrepl.resync.choice import WayAsked
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.database import Database
from tests.support.running.copying import Recorder, slot_of
from tests.support.running.pipeline import QUICK, Pipeline

#: Without Spark: the driver applies all.
ALONE = replace(QUICK, driver_changes=10**9)

TABLES = """
create schema app;
create table app.items (id int primary key, n int not null);
insert into app.items select g, g from generate_series(1, 60) g;
"""
FRESH = """
create table app.fresh (id int primary key, n int not null);
insert into app.fresh select * from app.items;
"""


def resync(
    pipeline: Pipeline,
    table: str,
    *,
    way: WayAsked = "whole",
    wait_s: int = 60,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    config, name = pipeline.config, pipeline.source.name
    options = ResyncOptions(tables=TableSelection.of([table]), way=way, wait_s=wait_s, pause=pause)
    copies = TableCopies(config)
    resync_tables(
        *(config, config.sources[name], options, Recorder()),
        lambda copied: copies.apply_waiting(name, [(t.schema_name, t.table_name) for t in copied]),
    )


def unpublish(source: Database, table: str) -> None:
    source.execute(f"alter publication {publication_names(slot_of(source))[0]} drop table {table}")


def publish(source: Database, table: str) -> None:
    source.execute(f"alter publication {publication_names(slot_of(source))[0]} add table {table}")


def test_transaction_that_wrote_before_a_new_table_was_published_is_waited_for(source, target):
    source.execute(TABLES)
    pipeline = Pipeline(source, target, plugin="pgoutput")
    pipeline.copy()
    source.execute(FRESH)
    unpublish(source, "app.fresh")
    with source.connect() as writer:
        writer.execute("begin; update app.fresh set n = -1 where id = 5")
        pid = writer.info.backend_pid
        with pytest.raises(SourceUnavailable, match=f"before it was published.* pid {pid}"):
            resync(pipeline, "app.fresh", wait_s=0)
        writer.execute("commit")
    # One that only begins to write when it is published is not.
    with source.connect() as writer:
        writer.execute("begin; update app.items set n = -1 where id = 5")
        resync(pipeline, "app.fresh")
        writer.execute("update app.fresh set n = -2 where id = 6; commit")
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []


@pytest.mark.parametrize("way", ["whole", "chunked"])
def test_one_that_wrote_before_a_table_was_published_again_is_waited_for(source, target, way):
    source.execute(TABLES)
    pipeline = Pipeline(source, target, plugin="pgoutput")
    pipeline.copy()
    unpublish(source, "app.items")
    with source.connect() as writer:
        writer.execute("begin; update app.items set n = -1 where id = 5")
        publish(source, "app.items")
        waits = []

        def pause(seconds: float) -> None:
            pipeline.receive()
            pipeline.replay(ALONE)
            waits.append(seconds)
            if len(waits) == 1:
                writer.execute("prepare transaction 'late'")
            elif len(waits) == 2:
                writer.execute("commit prepared 'late'")

        resync(pipeline, "app.items", way=way, pause=pause)
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []
    # What the copy has as a published table is not waited for again.
    with source.connect() as writer:
        writer.execute("begin; update app.items set n = -3 where id = 7")
        resync(pipeline, "app.items", wait_s=0)
        writer.execute("commit")
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []
