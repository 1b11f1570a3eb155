"""How far apart batches begin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgrepl.replayer import ReplaySettings
from pgrepl.replayer.pacing import Arrivals, Pause, bytes_to_hold, seconds_apart

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


def arrivals(*news):
    found = Arrivals()
    for one in news:
        found.hear(one)
    return found


NONE = arrivals()
MORE = arrivals("shop more 40")


def test_a_pause_lasts_the_least_while_nobody_catches_up():
    pause = Pause(1.0, 5.0, 100)
    assert pause.left(0.25, NONE) == 0.75
    assert pause.left(1.0, NONE) <= 0


def test_a_pause_is_longer_while_a_receiver_has_more_and_over_when_it_has_brought_the_last():
    pause = Pause(1.0, 5.0, 100)
    assert pause.left(0.25, MORE) == 4.75
    assert pause.left(0.5, MORE) == 4.5
    assert pause.left(0.5, NONE) <= 0


def test_a_pause_is_as_short_as_it_can_be_when_enough_has_arrived():
    pause = Pause(1.0, 5.0, 100)
    heard = arrivals("shop more 40", "crm more 59")
    assert pause.left(0.25, heard) == 4.75
    heard.hear("shop more 1")
    assert pause.left(0.25, heard) == 0.75
    heard.forget()
    assert pause.left(0.25, heard) == 4.75


def test_under_a_steady_load_a_receiver_that_has_more_for_a_moment_does_not_end_the_pause():
    pause = Pause(1.0, 1.0, 100)
    assert pause.left(0.25, MORE) == 0.75
    assert pause.left(0.5, NONE) == 0.5


def test_a_pause_without_a_least_time_is_for_receivers_that_have_more():
    assert Pause(0, 1.0, 100).left(0, NONE) <= 0
    assert Pause(0, 1.0, 100).left(0.25, MORE) == 0.75


def test_one_of_many_receivers_with_more_is_enough():
    heard = Arrivals()
    assert not heard.has_more
    for news in ("shop more 4", "crm more 3", "shop"):
        heard.hear(news)
    assert heard.has_more
    heard.hear("crm")
    assert not heard.has_more


def test_a_receiver_of_an_older_version_does_not_say_how_much():
    heard = arrivals("shop more")
    assert heard.has_more
    assert heard.byte_count == 0


HOLDS = ReplaySettings(hold_bytes=100, chunk_bytes=1000)


@pytest.mark.parametrize(
    ("held", "counts", "next_one"),
    [
        # Of new rows none comes again.
        (100, [(5000, 5000)], 100),
        (400, [(5000, 5000)], 100),
        # Few of the rows of a big table, and all of a small one: next to nothing is saved.
        (100, [(20_000, 19_800), (20_000, 10)], 100),
        (100, [(14_000, 10_000)], 400),
        (400, [(14_000, 10_000)], 1000),
        (1000, [(14_000, 10_000)], 1000),
        (100, [(50_000, 100)], 400),
        (400, [], 100),
    ],
)
def test_more_is_waited_for_where_the_same_rows_come_again(held, counts, next_one):
    assert bytes_to_hold(held, counts, HOLDS) == next_one


@pytest.mark.parametrize(
    "news",
    ["", " more", "x more y", "x more -1", "x more 1e9", "x more " + "9" * 5000, "\n more\0"],
)
def test_what_others_send_on_the_channel_does_no_harm(news):
    heard = arrivals(news, "shop more 40")
    assert (heard.byte_count, heard.has_more) == (40, True)


def test_names_that_others_make_up_are_not_kept_for_ever():
    heard = arrivals(*(f"{number} more" for number in range(25_000)))
    assert len(heard._with_more) < 20_000
