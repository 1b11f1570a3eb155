"""The demonstration does what it says."""

from __future__ import annotations

from tests.support.program import run_pgrepl


def test_demo_mends_copies_and_receives_two_live_sources():
    done = run_pgrepl("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    first, _, second = done.stdout.partition("Now all is well")
    assert "\nfailure " in first
    assert "ALTER SYSTEM SET wal_level = logical;" in first
    assert "\nfailure " not in second
    assert "Spark" in second
