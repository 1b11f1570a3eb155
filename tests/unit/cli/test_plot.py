"""Plots out of characters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pgrepl.cli.output.history_output import history_lines
from pgrepl.cli.output.plot import plot, resample, sparkline
from pgrepl.status.history import History, Point

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_line_is_filled_from_the_ground_up():
    assert plot([0, 8, 4, 1], 2) == ["⢸⠀", "⢸⣇"]
    assert plot([0, 0], 1) == ["⠀"]
    assert plot([None, 5], 1) == ["⢸"]


def test_what_is_little_is_still_seen():
    assert plot([1000, 0.001], 1) == ["⣇"]


def test_hole_stays_a_hole_in_a_sparkline():
    assert sparkline([0, None, 7]) == "▁ █"
    assert sparkline([]) == ""


def test_piece_keeps_its_peak():
    assert resample([(0.0, 1), (0.1, 9), (0.4, 2), (1.0, 3), (0.9, None)], 2) == [9, 3]
    assert resample([], 2) == [None, None]


def point(minutes_ago: int, lag: float, *, is_reachable: bool = True) -> Point:
    return Point(
        at=NOW - timedelta(minutes=minutes_ago),
        is_reachable=is_reachable,
        is_receiving=True,
        lag_bytes=10,
        lag_seconds=lag,
        held_bytes=16 << 20,
        spool_bytes=2048,
        wal_bytes_per_second=5.0,
        received_per_second=1234.5,
        applied_per_second=3.21,
        transactions_per_second=1.0,
    )


def test_history_fits_the_terminal_and_names_its_peak():
    points = [point(m, 90.0 if m == 60 else 1.5, is_reachable=m > 20) for m in range(359, 0, -1)]
    history = History(timedelta(hours=6), timedelta(minutes=1), {"shop": points})
    lines = list(history_lines(history, NOW, width=80))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "shop, the last 6 h 0 min" in text
    assert "at most 1 min 30 s, 2026-03-01 11:00:00Z" in text
    assert "06:00Z" in text
    assert "1,234 changes a second" in text
    assert "3.2 changes a second" in text
    assert "16 MB" in text
    (down,) = (line for line in lines if line.startswith("  down"))
    assert down.endswith("xxx")
    assert down.count("x") < 8


def test_nothing_written_down_is_said():
    history = History(timedelta(hours=1), timedelta(seconds=10), {})
    assert "nothing is written down yet" in "".join(history_lines(history, NOW, width=80))
