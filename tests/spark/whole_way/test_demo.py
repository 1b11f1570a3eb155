"""The demonstration does what it says."""

from __future__ import annotations

import pytest

from tests.support.program import run_pgrepl


@pytest.mark.timeout(600)
def test_demo_brings_two_live_sources_together():
    done = run_pgrepl("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    first, _, second = done.stdout.partition("Now all is well")
    assert "\nfailure " in first
    assert "ALTER SYSTEM SET wal_level = logical;" in first
    assert "\nfailure " not in second
    assert "Spark" in second
    assert "100 customers in club gold, 100 vouchers" in second
    assert "Row for row, sources and target are equal" in second
