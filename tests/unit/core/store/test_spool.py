"""The spool format."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgrepl.config.model import BUCKET_COUNT
from pgrepl.store.spool.spool_format import bucket_of, microseconds


def test_buckets_are_what_they_always_were():
    """Fixed for ever: the spool of an old version must be read by a new one."""
    names = [("shop", "public", "orders"), ("shop", "public", "items"), ("ü", "s.x", 'a"b')]
    assert [bucket_of(*name) for name in names] == [22, 40, 55]


@given(st.text(), st.text(), st.text())
def test_every_table_has_a_bucket(db, schema, table):
    assert 0 <= bucket_of(db, schema, table) < BUCKET_COUNT


def test_timestamps_count_from_2000_as_in_postgresql():
    assert microseconds("2000-01-01 00:00:00+00") == 0
    assert microseconds("2026-11-16 02:26:30.170192+00") == 848_111_190_170_192
    assert microseconds("1999-12-31 23:59:59.999999+00") == -1
