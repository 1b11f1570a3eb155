"""Files of tests are begun in an order that lets the processes of a run end together."""

from __future__ import annotations

from tests.support.machine.order import LONG, TESTS, place


def test_files_that_take_long_exist():
    assert [path for path in LONG if not path.is_file()] == []


def test_what_takes_long_is_begun_first_and_what_is_short_last():
    files = sorted(TESTS.glob("*/**/test_*.py"), key=place)
    kinds = list(dict.fromkeys(map(place, files)))
    assert kinds == [0, 1, 2, 3]
    assert {path.relative_to(TESTS).parts[0] for path in files if place(path) == kinds[-1]} == {
        "unit"
    }
