"""One item is made while another is worked on, and no more."""

from __future__ import annotations

import threading

import pytest

from pgrepl.replayer.shard.prefetch import one_ahead


def count(end):
    yield from range(end)


def test_all_items_arrive_in_order():
    with one_ahead(count(5)) as items:
        assert list(items) == [0, 1, 2, 3, 4]


def test_next_is_made_while_the_last_is_worked_on_but_not_the_one_behind_it():
    begun: list[int] = []
    is_begun = [threading.Event() for _ in range(4)]

    def make():
        for number in range(4):
            begun.append(number)
            is_begun[number].set()
            yield number

    with one_ahead(make()) as items:
        assert next(items) == 0
        assert is_begun[1].wait(120)
        assert next(items) == 1
        assert is_begun[2].wait(120)
        assert begun == [0, 1, 2]


def test_error_is_raised_behind_what_was_made_before_it():
    def make():
        yield 1
        raise ValueError("broken")

    with one_ahead(make()) as items:
        assert next(items) == 1
        with pytest.raises(ValueError, match="broken"):
            next(items)


def test_who_stops_early_leaves_nobody_behind():
    before = threading.active_count()
    with one_ahead(count(1000)) as items:
        assert next(items) == 0
    assert threading.active_count() == before
