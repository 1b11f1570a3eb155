"""A source without tables is taken up, and its tables join later."""

from __future__ import annotations

from pgrepl.config.naming import TableSelection
from pgrepl.resync.report import ResyncOptions
from pgrepl.resync.run import resync_tables
from tests.support.running.copying import Recorder, copy, has_slot, make_config, slot_of, state_of
from tests.support.running.replaying import checksums, replay_slot
from tests.support.workloads.workload import make_tables


def test_source_without_tables_streams_and_its_tables_join(source, target):
    assert copy(target, source).outcome == "copied"
    assert state_of(target, source) == "streaming"
    assert has_slot(source)
    assert copy(target, source).outcome == "already copied"
    make_tables(source)
    config = make_config(target, source)
    options = ResyncOptions(tables=TableSelection.of(["*.*"]), wait_s=30)
    resync_tables(config, config.sources[source.name], options, Recorder())
    source.execute("update app.accounts set note = 'later'", "delete from app.history")
    there = f"{source.name}_app"
    replay_slot(source, target, slot_of(source), {"app": there})
    assert checksums(target, there) == checksums(source, "app")
