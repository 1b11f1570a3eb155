"""Whatever DDL does, the target gets there: many scenarios together on one source."""

from __future__ import annotations

import pytest

from tests.support.ddl.reach_attacks import ATTACKS
from tests.support.ddl.reach_hostile import HOSTILE_SCENARIOS
from tests.support.ddl.reach_kinds import KIND_SCENARIOS
from tests.support.ddl.reach_moments import MOMENT_SCENARIOS
from tests.support.ddl.reach_others import OTHER_SCENARIOS
from tests.support.ddl.reach_reviewed import REVIEWED_SCENARIOS
from tests.support.ddl.reach_tables import TABLE_SCENARIOS
from tests.support.ddl.reach_unforeseen import UNFORESEEN_SCENARIOS
from tests.support.ddl.reaching import apply_scenarios, assert_equal, copy_scenarios, run_scenarios

pytestmark = [pytest.mark.usefixtures("one_spark_session"), pytest.mark.timeout(600)]


@pytest.mark.parametrize("plugin", ["wal2json", pytest.param("pgoutput", marks=pytest.mark.soak)])
def test_all_scenarios_together_end_equal(source, target, plugin):
    scenarios = (*TABLE_SCENARIOS, *OTHER_SCENARIOS)
    pipeline = copy_scenarios(source, target, scenarios, plugin)
    # The owner of the target adds what helps there.
    target.execute(
        f"create unique index on {pipeline.schema('rename_everything')}.t (a, id)",
        f"alter table {pipeline.schema('foreign_keys')}.t add own text default 'x'",
    )
    run_scenarios(pipeline, scenarios)
    apply_scenarios(pipeline)
    target.execute(f"alter table {pipeline.schema('foreign_keys')}.t drop own")
    assert_equal(pipeline, scenarios)


@pytest.mark.parametrize("plugin", ["pgoutput", pytest.param("wal2json", marks=pytest.mark.soak)])
def test_hostile_scenarios_together_end_equal(source, target, plugin):
    pipeline = copy_scenarios(source, target, HOSTILE_SCENARIOS, plugin)
    run_scenarios(pipeline, HOSTILE_SCENARIOS)
    apply_scenarios(pipeline)
    assert_equal(pipeline, HOSTILE_SCENARIOS)


@pytest.mark.soak
@pytest.mark.parametrize("plugin", ["pgoutput", "wal2json"])
def test_reviewed_scenarios_together_end_equal(source, target, plugin):
    pipeline = copy_scenarios(source, target, REVIEWED_SCENARIOS, plugin)
    run_scenarios(pipeline, REVIEWED_SCENARIOS)
    apply_scenarios(pipeline)
    assert_equal(pipeline, REVIEWED_SCENARIOS)


@pytest.mark.soak
@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_attacks_together_end_equal(source, target, plugin):
    pipeline = copy_scenarios(source, target, ATTACKS, plugin)
    run_scenarios(pipeline, ATTACKS)
    apply_scenarios(pipeline)
    assert_equal(pipeline, ATTACKS)


@pytest.mark.soak
@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_unforeseen_scenarios_together_end_equal(source, target, plugin):
    pipeline = copy_scenarios(source, target, UNFORESEEN_SCENARIOS, plugin)
    run_scenarios(pipeline, UNFORESEEN_SCENARIOS)
    apply_scenarios(pipeline)
    assert_equal(pipeline, UNFORESEEN_SCENARIOS)


@pytest.mark.soak
@pytest.mark.parametrize("scenarios", [MOMENT_SCENARIOS, KIND_SCENARIOS], ids=["moments", "kinds"])
@pytest.mark.parametrize("plugin", ["wal2json", "pgoutput"])
def test_odd_scenarios_together_end_equal(source, target, plugin, scenarios):
    pipeline = copy_scenarios(source, target, scenarios, plugin)
    run_scenarios(pipeline, scenarios)
    apply_scenarios(pipeline)
    assert_equal(pipeline, scenarios)
