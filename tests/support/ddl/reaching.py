"""Run scenarios of DDL together on one source, and insist that the target gets there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import psycopg
import pytest

from pgrepl.config.model import Plugin
from pgrepl.ddl_capture import Applier, install
from pgrepl.resync import Resyncer
from tests.support.database import Database
from tests.support.ddl.reach_case import OTHER_SCHEMAS, Scenario
from tests.support.running.pipeline import Pipeline


def copy_scenarios(
    source: Database, target: Database, scenarios: Sequence[Scenario], plugin: Plugin
) -> Pipeline:
    """Make what the scenarios begin with, and copy it."""
    for scenario in scenarios:
        with source.connect(options=f"-c search_path={scenario.name},public") as connection:
            connection.execute(f"create schema {scenario.name}; {scenario.before}".encode())
    pipeline = Pipeline(source, target, plugin=plugin)
    pipeline.ddl = Applier(pipeline.config)
    pipeline.resync = Resyncer(pipeline.config, interval_s=0.0, backoff_s=0.0)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    return pipeline


def run_scenarios(pipeline: Pipeline, scenarios: Sequence[Scenario]) -> None:
    """Run what is captured of them."""
    for scenario in scenarios:
        options = f"-c search_path={scenario.name},public"
        with pipeline.source.connect(options=options) as connection:
            for message in scenario.after:
                fails = message.startswith("-- fails")
                with pytest.raises(psycopg.Error) if fails else nullcontext():
                    connection.execute(message.encode())


def apply_scenarios(pipeline: Pipeline) -> None:
    """Apply all of it; nothing may wait in the end."""
    # With pgoutput the receiver looks after each pass, and knows what replay has made by then.
    for _ in range(1 if pipeline.plugin == "wal2json" else 2):
        pipeline.receive()
        result = pipeline.replay()
        assert (result.error, result.parked, result.waiting_ddl) == (None, [], 0)
    assert result.due == []


def assert_equal(pipeline: Pipeline, scenarios: Sequence[Scenario]) -> None:
    """Insist that all tables of the scenarios are equal."""
    schemas = [scenario.name for scenario in scenarios] + list(OTHER_SCHEMAS)
    assert {name: found for name in schemas if (found := pipeline.differences(name))} == {}
    assert pipeline.target.value("select count(*) from replication.resync_due") == 0
