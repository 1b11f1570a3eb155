"""Whatever DDL does, the target gets there: many scenarios together on one source."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture import Applier, install
from pgrepl.resync import Resyncer
from tests.support.pipeline import Pipeline
from tests.support.reach_case import OTHER_SCHEMAS
from tests.support.reach_others import OTHER_SCENARIOS
from tests.support.reach_tables import TABLE_SCENARIOS

SCENARIOS = (*TABLE_SCENARIOS, *OTHER_SCENARIOS)


@pytest.mark.usefixtures("one_spark_session")
@pytest.mark.timeout(600)
def test_all_scenarios_together_end_equal(source, target):
    for scenario in SCENARIOS:
        with source.connect(options=f"-c search_path={scenario.name},public") as connection:
            connection.execute(f"create schema {scenario.name}; {scenario.before}".encode())
    pipeline = Pipeline(source, target)
    pipeline.ddl = Applier(pipeline.config)
    pipeline.resync = Resyncer(pipeline.config, interval_s=0.0, backoff_s=0.0)
    install(pipeline.config.sources[source.name])
    pipeline.copy()
    # The owner of the target adds what helps there.
    target.execute(
        f"create unique index on {pipeline.schema('rename_everything')}.t (a, id)",
        f"alter table {pipeline.schema('foreign_keys')}.t add own text default 'x'",
    )
    for scenario in SCENARIOS:
        with source.connect(options=f"-c search_path={scenario.name},public") as connection:
            for message in scenario.after:
                connection.execute(message.encode())
    pipeline.receive()
    result = pipeline.replay()
    assert (result.error, result.parked, result.waiting_ddl, result.due) == (None, [], 0, [])
    target.execute(f"alter table {pipeline.schema('foreign_keys')}.t drop own")
    schemas = [scenario.name for scenario in SCENARIOS] + list(OTHER_SCHEMAS)
    assert {name: found for name in schemas if (found := pipeline.differences(name))} == {}
    assert target.value("select count(*) from replication.resync_due") == 0
