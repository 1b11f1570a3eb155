"""The pauses between attempts."""

from __future__ import annotations

from pgrepl.retry import Backoff


def test_pauses_double_up_to_the_limit():
    backoff = Backoff(0.5, 3.0)
    assert [backoff.fail() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_success_begins_with_the_shortest_pause_again():
    backoff = Backoff(0.5, 3.0)
    backoff.fail()
    backoff.fail()
    backoff.succeed()
    assert backoff.fail() == 0.5


def test_failures_of_an_earlier_process_count_however_many_they_are():
    assert Backoff(0.5, 30.0, 3).fail() == 4.0
    assert Backoff(0.5, 30.0, 10**6).fail() == 30.0
