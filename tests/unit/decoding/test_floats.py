"""NaN and Infinity that were printed as null."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.wal2json.floats import FloatColumns
from tests.support.messages.lines import change


def made(names: list[str], not_null_names: list[str]) -> FloatColumns:
    columns = FloatColumns.of(names, not_null_names, [*names, "z", "note"], "utf-8")
    assert columns is not None
    return columns


columns = made(["x", "y"], ["x"])


def test_table_without_floats_needs_no_look():
    assert FloatColumns.of([], [], ["note"], "utf-8") is None


def test_null_is_a_loss_in_a_not_null_column_only():
    assert columns.has_lost(change("I", "t", x=None, y=1))
    assert not columns.has_lost(change("I", "t", x=1, y=None))


@given(st.text())
def test_text_is_never_taken_for_a_null(text):
    line = change("I", "t", note=text + '{"name":"x","value":null}' + text, x=1)
    assert not columns.has_lost(line)
    assert columns.restore(line, [b"NaN"]) is None


def test_values_are_put_back_in_their_order():
    line = change("I", "t", x=None, z=None, y=None)
    expected = change("I", "t", x="NaN", z=None, y="-Infinity")
    assert columns.restore(line, [b"NaN", b"-Infinity"]) == expected


def test_null_beside_a_special_value_is_told_apart_by_not_null():
    line = change("I", "t", x=None, y=None)
    assert columns.restore(line, [b"NaN"]) == change("I", "t", x="NaN", y=None)


@pytest.mark.parametrize("name", ["renamed", 'quo"ted', "back\\slash"])
def test_null_in_a_column_that_the_catalogue_does_not_know_gives_up(name):
    nulls: dict[str, Any] = {"x": None, name: None}
    assert columns.restore(change("I", "t", **nulls), [b"NaN"]) is None


def test_null_that_cannot_be_told_apart_gives_up():
    nullable = made(["x", "y"], [])
    assert nullable.restore(change("I", "t", x=None, y=None), [b"NaN"]) is None


def test_name_of_a_column_may_hold_anything():
    odd = 'a"b\\[.*'
    values: dict[str, Any] = {odd: None}
    assert made([odd], [odd]).has_lost(change("I", "t", **values))
