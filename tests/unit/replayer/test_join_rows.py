"""Rows for COPY are the same whoever joins them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.native import native
from pgrepl.replayer.shard.merging import staging

VALUES = st.binary(max_size=6)


@pytest.mark.skipif(native is None, reason="nothing is compiled here")
@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[VALUES] * (n + 2)))), VALUES)
def test_same_rows_are_joined(changes, head):
    for end in range(1, min(map(len, changes), default=2)):
        joined = b"\n".join(staging.join_rows(changes, end, head))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(staging, "native", None)
            assert joined == b"\n".join(staging.join_rows(changes, end, head))


@pytest.mark.skipif(native is None, reason="nothing is compiled here")
@pytest.mark.parametrize(
    ("changes", "end"),
    [([(b"I", b"1")], 3), ([[b"I", b"1"]], 2), ([(b"I", "1")], 2), ([(b"I", b"1")], 1)],
)
def test_what_is_no_change_is_refused(changes, end):
    assert native is not None
    with pytest.raises((TypeError, ValueError)):
        native.join_rows(changes, end, b"")
