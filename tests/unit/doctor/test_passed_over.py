"""Copied tables that the patterns do not take in any more."""

from __future__ import annotations

from pgrepl.doctor.checks.target.passed_over_checks import check_passed_over
from pgrepl.doctor.finding import Status


def test_tables_that_get_no_changes_are_a_warning_with_what_brings_them_back():
    assert check_passed_over({"shop": []}).status is Status.OK
    found = check_passed_over({"shop": ["app.t"], "crm": []})
    assert found.status is Status.WARNING
    assert "app.t" in found.message
    assert found.remedy is not None
    assert found.remedy.shell == ("pgrepl resync shop app.t",)
