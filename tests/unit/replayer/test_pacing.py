"""How far apart batches begin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgrepl.replayer import ReplaySettings
from pgrepl.replayer.pacing import seconds_apart

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = ReplaySettings(pace_s=1.0, hold_s=5.0)


@pytest.mark.parametrize(
    ("ages_s", "most_s"),
    [
        ([0], 1.0),
        ([1.9], 1.0),
        ([4], 2.0),
        ([600], 5.0),
        # The freshest source decides, and a clock that is ahead does no harm.
        ([600, 4], 2.0),
        ([-30], 1.0),
    ],
)
def test_the_older_the_changes_the_more_are_waited_for(ages_s, most_s):
    newest = [NOW - timedelta(seconds=age_s) for age_s in ages_s]
    assert seconds_apart(newest, NOW, SETTINGS) == (1.0, most_s)
