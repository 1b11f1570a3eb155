"""The last line of doctor."""

from __future__ import annotations

import pytest

from pgrepl.cli.setup.doctor import _counted


@pytest.mark.parametrize(
    ("count", "status", "shown"),
    [
        (1, "failure", "1 failure"),
        (2, "failure", "2 failures"),
        (3, "warning", "3 warnings"),
        (2, "ok", "2 ok"),
        (2, "skipped", "2 skipped"),
    ],
)
def test_findings_are_counted_in_english(count, status, shown):
    assert _counted(count, status) == shown
