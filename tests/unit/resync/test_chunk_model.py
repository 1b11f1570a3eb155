"""The rule of chunks in a model: right by visibility, wrong by position."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.workloads.chunk_model import by_position, play

EVENTS = st.lists(
    st.tuples(st.integers(0, 10), st.integers(0, 2), st.integers(0, 11), st.integers(0, 11)),
    max_size=120,
)
GARBAGE = st.dictionaries(st.integers(0, 20), st.tuples(st.integers(0, 9), st.integers(0, 9)))


@given(EVENTS)
@examples(75)
def test_copy_that_was_right_stays_right_and_shows_no_row_that_never_existed(events):
    assert play(events)[2] == []


@given(EVENTS, GARBAGE)
@examples(75)
def test_copy_of_anything_is_right_in_the_end(events, garbage):
    assert play(events, garbage)[2] == []


def random_events(seed: int) -> list[tuple[int, int, int, int]]:
    dice = random.Random(seed)
    return [
        (dice.randrange(11), dice.randrange(3), dice.randrange(12), dice.randrange(12))
        for _ in range(150)
    ]


def test_control_that_places_by_position_alone_goes_wrong():
    wrong = [seed for seed in range(40) if play(random_events(seed), sees=by_position)[2]]
    assert len(wrong) > 5
    assert not any(play(random_events(seed))[2] for seed in range(40))


def test_control_that_does_not_look_at_what_was_applied_goes_wrong():
    wrong = [seed for seed in range(40) if play(random_events(seed), checks_applied=False)[2]]
    assert len(wrong) > 5


def test_rows_are_read_again_only_where_they_move_between_zones():
    moved = sum(play(random_events(seed))[1].reread_count for seed in range(40))
    still = sum(
        play([event for event in random_events(seed) if event[0] != 4])[1].reread_count
        for seed in range(40)
    )
    assert moved > 0
    assert still == 0
