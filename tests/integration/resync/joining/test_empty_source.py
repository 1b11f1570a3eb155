"""A source without tables is taken up; its tables join later, or come by captured DDL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.config.naming import TableSelection
from pgrepl.ddl_capture import Applier, install
from pgrepl.resync.release import TableCopies
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.running.copying import Recorder, copy, has_slot, state_of
from tests.support.running.pipeline import QUICK, Pipeline
from tests.support.workloads.workload import make_tables

#: Without Spark: the driver applies all.
ALONE = replace(QUICK, driver_changes=10**9)
LATER = ("update app.accounts set note = 'later'", "delete from app.history")


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_source_without_tables_streams_and_its_tables_join(source, target, plugin):
    assert copy(target, source, plugin=plugin).outcome == "copied"
    assert state_of(target, source) == "streaming"
    assert has_slot(source)
    assert copy(target, source, plugin=plugin).outcome == "already copied"
    make_tables(source)
    pipeline = Pipeline(source, target, plugin=plugin)
    config, name = pipeline.config, source.name
    options = ResyncOptions(tables=TableSelection.of(["*.*"]), wait_s=30)
    resync_tables(
        *(config, config.sources[name], options, Recorder()),
        lambda copied: TableCopies(config).apply_waiting(
            name, [(t.schema_name, t.table_name) for t in copied]
        ),
    )
    source.execute(*LATER)
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []


@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_tables_of_a_source_that_was_empty_come_by_captured_ddl(source, target, plugin):
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.ddl = Applier(pipeline.config)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    make_tables(source)
    source.execute(*LATER)
    pipeline.apply(ALONE)
    assert pipeline.differences("app") == []
    assert target.rows("select from replication.source_table where resync_reason is not null") == []
