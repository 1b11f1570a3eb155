"""Lengths of time as people write and read them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgrepl.durations import parse_duration, print_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("60s", timedelta(minutes=1)),
        (" 5 min ", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("30d", timedelta(days=30)),
        ("0s", timedelta()),
    ],
)
def test_number_and_unit_are_a_duration(text, duration):
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "60", "s", "-1s", "1.5h", "1 week", "1h30min", "٣s"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min 0 s"),
        (3599.9, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (86_399, "23 h 59 min"),
        (86_400 * 2 + 3600, "2 d 1 h"),
    ],
)
def test_two_largest_units_are_printed(seconds, text):
    assert print_duration(seconds) == text
