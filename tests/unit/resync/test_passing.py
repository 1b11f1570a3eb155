"""What is said while a copy in chunks waits for replay to pass its last chunk."""

from __future__ import annotations

import pytest

from pgrepl.lsn import Lsn
from pgrepl.resync.chunked.passing import Look, Passing

MB = 1024 * 1024


def look(at: float, applied: int, head: int, needed: int = 100) -> Look:
    return Look(at, Lsn(applied * MB), Lsn(needed * MB), Lsn(head * MB))


@pytest.mark.parametrize(
    ("applied", "head", "said"),
    [
        (30, 110, "70.0 MB of WAL to the last chunk; replay passes 2.0 MB/s, the source writes"),
        (20, 300, "source writes 20.0 MB/s; replay does not follow the source"),
        (10, 300, "source writes 20.0 MB/s; replay does not move"),
    ],
)
def test_how_far_replay_has_to_go_and_whether_it_follows_is_said(applied, head, said):
    passing = Passing()
    passing.has_moved(look(0.0, 10, 100))
    passing.has_moved(look(10.0, applied, head))
    text = passing.report()
    assert text is not None
    assert said in text
    assert ("does not" in said) == ("does not" in text)


def test_it_is_said_after_a_moment_and_then_seldom():
    passing = Passing()
    due = []
    for second in range(100):
        passing.has_moved(look(float(second), second, 100 + second))
        due += [second] if passing.report() else []
    assert due == [2, 32, 62, 92]


def test_replay_that_moves_is_waited_for_and_one_that_stands_still_is_not():
    passing = Passing()
    assert passing.has_moved(look(0.0, 10, 100))
    assert not passing.has_moved(look(1.0, 10, 200))
    assert passing.has_moved(look(2.0, 11, 300))
