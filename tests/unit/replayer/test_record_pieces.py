"""Refused changes among many are found in few tries."""

from __future__ import annotations

import random

import pytest

from pgrepl.replayer.shard.record_pieces import Pieces

CHANCE = random.Random(5)


def search(parts: list[list[bool]]) -> int:
    """Have the changes of parts tried, of which some are refused; return how many tries it took."""
    tries = 0
    pieces = Pieces()
    for part in parts:
        found: list[int] = []
        done = 0

        def is_applied(at: int, end: int) -> bool:
            nonlocal tries, done
            tries += 1
            assert at == done
            assert at < end <= len(part)  # noqa: B023
            if any(part[at:end]):  # noqa: B023
                if end - at == 1:
                    found.append(at)  # noqa: B023
                    done = end
                return False
            done = end
            return True

        pieces.run(len(part), is_applied)
        assert done == len(part)
        assert found == [number for number, is_bad in enumerate(part) if is_bad]
    return tries


@pytest.mark.parametrize(
    ("share", "limit"), [(1.0, 1.01), (0.9, 1.03), (0.5, 1.2), (0.1, 0.6), (0.01, 0.1), (0, 0.01)]
)
def test_refused_changes_are_found_in_few_tries(share, limit):
    parts = [[CHANCE.random() < share for _ in range(2000)] for _ in range(5)]
    assert search(parts) <= limit * 10_000


def test_many_at_once_do_not_make_what_follows_slow():
    assert search([[True] * 2000, *([False] * 2000 for _ in range(9))]) < 2100


def test_no_change_is_no_try():
    assert search([[], [True], []]) == 1
