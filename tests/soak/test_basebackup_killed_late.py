"""The rest of the places where a basebackup is killed; each takes half a minute."""

from __future__ import annotations

import pytest

from tests.support.running.killing import kill_and_go_on

pytestmark = pytest.mark.usefixtures("one_spark_session")

PLACES = [
    ("copy_planned", "copying", "resumed"),
    ("data_copied", "copying", "resumed"),
    ("step_done", "copying", "resumed"),
    ("before_origin", "copying", "resumed"),
]


@pytest.mark.parametrize("case", PLACES, ids=[place for place, _, _ in PLACES])
def test_run_after_a_late_kill_goes_on(tmp_path, source, target, case):
    kill_and_go_on(tmp_path, source, target, case)
