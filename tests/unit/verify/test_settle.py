"""Which rows count as differences, round by round."""

from __future__ import annotations

from pgrepl.verify.rows.settle import RowState, Settlement

KEY = ("1",)
OLD = RowState("a", "v1")
NEW = RowState("b", "v2")


def rounds(*pairs):
    settlement = Settlement([KEY])
    for source, target in pairs:
        settlement.take_round({KEY: source} if source else {}, {KEY: target} if target else {})
    return settlement


def test_row_that_is_equal_once_is_settled():
    settlement = rounds((OLD, RowState("a", "x")))
    assert (settlement.open_items, settlement.differences) == ([], {})


def test_row_that_is_gone_on_both_sides_is_settled():
    assert rounds((None, None)).open_items == []


def test_one_round_is_not_enough():
    settlement = rounds((OLD, NEW))
    assert (settlement.open_items, settlement.differences) == ([KEY], {})


def test_same_difference_in_two_rounds_is_one():
    settlement = rounds((OLD, NEW), (OLD, NEW))
    assert (settlement.open_items, settlement.differences) == ([], {KEY: (OLD, NEW)})


def test_missing_and_extra_rows_are_differences_when_they_stay():
    assert rounds((OLD, None), (OLD, None)).differences == {KEY: (OLD, None)}
    assert rounds((None, NEW), (None, NEW)).differences == {KEY: (None, NEW)}


def test_row_written_in_between_gets_another_round():
    again = OLD._replace(version="v9")
    settlement = rounds((OLD, NEW), (again, NEW))
    assert (settlement.open_items, settlement.differences) == ([KEY], {})
    settlement.take_round({KEY: again}, {KEY: NEW})
    assert settlement.differences == {KEY: (again, NEW)}


def test_row_that_the_target_wrote_in_between_gets_another_round():
    again = NEW._replace(version="v9")
    assert rounds((None, NEW), (None, again)).open_items == [KEY]


def test_keys_that_print_differently_and_are_equal_count_once():
    settlement = Settlement([("1.0",), ("1.00",)])
    for _ in range(2):
        settlement.take_round({("1.0",): OLD, ("1.00",): OLD}, {("1.0",): NEW, ("1.00",): NEW})
    assert list(settlement.differences) == [("1.0",)]


def test_later_pass_does_not_open_what_is_settled():
    settlement = rounds((OLD, NEW), (OLD, NEW))
    settlement.add([KEY, ("2",)])
    assert settlement.open_items == [("2",)]
