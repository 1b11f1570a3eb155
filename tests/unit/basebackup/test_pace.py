"""How fast rows are read when a rate is given."""

from __future__ import annotations

from pgrepl.basebackup.rows.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_bytes_take_the_time_that_the_rate_allows():
    clock = Clock()
    pace = Pace(1000, clock=lambda: clock.now, sleep=clock.sleep)
    for _ in range(50):
        pace.spend(100)
    assert round(clock.now - 100, 6) == 5.0


def test_a_pause_is_made_up_for_by_a_second_at_most():
    clock = Clock()
    pace = Pace(1000, clock=lambda: clock.now, sleep=clock.sleep)
    clock.now += 60
    pace.spend(1000)
    assert clock.now == 160.0
    pace.spend(1000)
    assert clock.now == 161.0
