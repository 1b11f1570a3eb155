from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.lsn import Lsn, end_of_wal

positions = st.integers(min_value=0, max_value=2**64 - 1)


@given(positions)
def test_text_form_reads_back_as_the_same_lsn(position):
    assert Lsn.parse(str(Lsn(position))) == position


@given(positions, positions)
def test_lsns_are_ordered_by_position_not_by_text(one, other):
    assert (Lsn(one) < Lsn(other)) == (one < other)


def test_lsn_is_printed_as_postgresql_prints_it():
    assert str(Lsn(0)) == "0/0"
    assert str(Lsn(0x16_B374_D848)) == "16/B374D848"
    assert str(Lsn(0x1_0000_000A)) == "1/A"


def test_difference_is_a_number_of_bytes():
    assert Lsn.parse("1/0") - Lsn.parse("0/FFFFFFFF") == 1


@pytest.mark.parametrize(
    "text", ["", "0", "0/", "/0", "0/G", "0/123456789", "-1/0", "0/0 ", "0x1/0"]
)
def test_text_that_is_no_lsn_is_refused(text):
    with pytest.raises(ValueError, match="is not an LSN"):
        Lsn.parse(text)


@pytest.mark.parametrize("position", [-1, 2**64])
def test_position_outside_64_bits_is_refused(position):
    with pytest.raises(ValueError, match="between 0 and"):
        Lsn(position)


def test_lsn_survives_pickling():
    copy = pickle.loads(pickle.dumps(Lsn(7)))
    assert (type(copy), copy) == (Lsn, 7)


@pytest.mark.parametrize(
    ("insert", "end"),
    [
        ("0/2000028", "0/2000000"),
        ("0/2002018", "0/2002000"),
        ("0/2002000", "0/2002000"),
        ("0/2002040", "0/2002040"),
    ],
)
def test_position_behind_a_page_header_is_the_end_of_the_page_before(insert, end):
    assert end_of_wal(Lsn.parse(insert)) == Lsn.parse(end)
