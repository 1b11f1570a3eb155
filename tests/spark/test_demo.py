"""The demonstration does what it says."""

from __future__ import annotations

from tests.support.program import run_pgrepl


def test_demo_fails_doctor_mends_the_source_and_passes():
    done = run_pgrepl("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    first, _, second = done.stdout.partition("Now all is well")
    assert "\nfailure " in first
    assert "ALTER SYSTEM SET wal_level = logical;" in first
    assert "\nfailure " not in second
    assert "Spark" in second
