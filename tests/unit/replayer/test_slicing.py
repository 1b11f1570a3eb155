"""Changes dealt to slices by their keys."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding import changes as decoded
from pgrepl.decoding.changes import DELETE, INSERT, UPDATE, Layout, Run, TableChanges
from pgrepl.decoding.shape import Column, Shape
from pgrepl.native import native
from pgrepl.replayer.shard import slicing
from pgrepl.replayer.shard.slicing import has_fixed_keys, leave_out, slice_changes


def column(name):
    return Column(name, "text", is_generated=False, is_identity_always=False, staging_type=None)


SHAPE = Shape("s", "t", "r", [column("a"), column("b"), column("n")], ("a", "b"))
FULL = Layout(SHAPE, ["a", "b", "n"], ["a", "b"])
NEW = Layout(SHAPE, ["a", "b", "n"], [])
OLD = Layout(SHAPE, [], ["a", "b"])


def table(*runs):
    changes = TableChanges(("s", "t"), SHAPE)
    changes.runs = [Run(layout, list(rows)) for layout, rows in runs]
    changes.count = sum(len(run.changes) for run in changes.runs)
    return changes


KEYS = st.tuples(st.sampled_from([b"1", b"2", b"10"]), st.sampled_from([b"x", b"y", b"xy"]))
ROWS = {
    FULL: st.one_of(
        KEYS.map(lambda key: (INSERT, *key, b"n", *key)),
        KEYS.map(lambda key: (UPDATE, *key, b"n", *key)),
        KEYS.map(lambda key: (DELETE, rb"\N", rb"\N", rb"\N", *key)),
    ),
    NEW: KEYS.map(lambda key: (INSERT, *key, b"n")),
    OLD: KEYS.map(lambda key: (DELETE, *key)),
}
RUNS = st.sampled_from(list(ROWS)).flatmap(
    lambda layout: st.tuples(st.just(layout), st.lists(ROWS[layout], min_size=1, max_size=6))
)


def key_of(change):
    return change[-2:] if len(change) != len(FULL.columns) + 1 else change[1:3]


@given(st.lists(RUNS, max_size=5), st.integers(2, 5))
def test_each_change_is_in_one_slice_in_order_with_all_of_its_row(runs, count):
    changes = table(*runs)
    assert has_fixed_keys(SHAPE, changes)
    slices = slice_changes(SHAPE.key, changes, count)
    assert sum(own.count for own in slices) == changes.count
    homes: dict[tuple[bytes, ...], int] = {}
    for number, own in enumerate(slices):
        for change in chain.from_iterable(run.changes for run in own.runs):
            assert homes.setdefault(key_of(change), number) == number
    for number, own in enumerate(slices):
        mine = [
            [change for change in run.changes if homes[key_of(change)] == number]
            for run in changes.runs
        ]
        assert [run.changes for run in own.runs] == [rows for rows in mine if rows]


@given(st.lists(RUNS, max_size=5), st.integers(2, 5), st.sets(st.integers(1, 4)))
def test_what_is_left_out_are_exactly_the_slices(runs, count, applied):
    changes = table(*runs)
    slices = slice_changes(SHAPE.key, changes, count)
    left = leave_out(SHAPE.key, changes, count, applied)
    kept = [own for number, own in enumerate(slices) if number not in applied]
    assert left.count == sum(own.count for own in kept)
    rows = sorted(c for run in left.runs for c in run.changes)
    assert rows == sorted(c for own in kept for run in own.runs for c in run.changes)


@pytest.mark.parametrize(
    "runs",
    [
        [(FULL, [(UPDATE, b"1", b"x", b"n", b"2", b"x")])],
        [(Layout(SHAPE, ["n"], ["a", "b"]), [(UPDATE, b"n", b"1", b"x")])],
        [(Layout(SHAPE, ["a", "b", "n"], ["n"]), [(UPDATE, b"1", b"x", b"n", b"n")])],
        [(FULL, [(b"T",)])],
    ],
    ids=["moves", "no key in the row", "another identity", "unknown"],
)
def test_changes_whose_keys_are_not_fixed_are_told(runs):
    assert not has_fixed_keys(SHAPE, table(*runs))


def test_table_without_a_key_has_no_slices():
    keyless = Shape("s", "t", "r", [column("a")], ())
    assert not has_fixed_keys(keyless, TableChanges(("s", "t"), keyless))


MOVED = KEYS.flatmap(lambda new: KEYS.map(lambda old: (UPDATE, *new, b"n", *old)))


@pytest.mark.skipif(native is None, reason="nothing is compiled here")
@given(st.lists(st.one_of(RUNS, st.tuples(st.just(FULL), st.lists(MOVED, min_size=1)))))
def test_what_is_compiled_deals_as_python_does(runs):
    """Which slice a row belongs to is the same in every process, with and without it."""
    changes = table(*runs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slicing, "native", None)
        patch.setattr(decoded, "native", None)
        is_fixed = has_fixed_keys(SHAPE, changes)
        dealt = [own.runs for own in slice_changes(SHAPE.key, changes, 3)]
    assert has_fixed_keys(SHAPE, changes) == is_fixed
    assert [own.runs for own in slice_changes(SHAPE.key, changes, 3)] == dealt


@pytest.mark.skipif(native is None, reason="nothing is compiled here")
@pytest.mark.parametrize(
    ("changes", "places", "count"),
    [
        ([(b"U",)], (1,), 2),
        ([(b"U", b"1")], (-1,), 2),
        ([(b"U", "1")], (1,), 2),
        ([[b"U", b"1"]], (1,), 2),
        ([(b"U", b"1")], (), 2),
        ([(b"U", b"1")], (1,), 0),
        ([(b"U", b"1")], (1,) * 33, 2),
    ],
)
def test_what_is_no_change_is_refused(changes, places, count):
    assert native is not None
    with pytest.raises((IndexError, TypeError, ValueError)):
        native.deal(changes, places, count)
