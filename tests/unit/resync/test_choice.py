"""Which way a table is copied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.errors import UsageError
from pgrepl.resync.choice import TableFacts, choose_way

LARGE = TableFacts(
    name="public.orders",
    size_bytes=100 * 1024**3,
    is_first=False,
    is_live=True,
    chunk_obstacle=None,
)


def test_large_table_that_is_live_is_copied_in_chunks_and_a_small_one_as_a_whole():
    assert choose_way(LARGE).way == "chunked"
    assert choose_way(replace(LARGE, size_bytes=8192)).way == "whole"


@pytest.mark.parametrize(
    "facts",
    [
        replace(LARGE, is_live=False),
        replace(LARGE, chunk_obstacle="it has no key"),
    ],
)
def test_table_that_cannot_be_chunked_is_copied_as_a_whole_and_asking_otherwise_is_refused(facts):
    assert choose_way(facts).way == "whole"
    with pytest.raises(UsageError, match=r"public\.orders cannot be copied in chunks"):
        choose_way(facts, "chunked")


def test_large_table_that_is_new_joins_in_chunks():
    new = replace(LARGE, is_first=True, is_live=False)
    assert choose_way(new).way == "chunked"
    assert choose_way(replace(new, size_bytes=8192)).way == "whole"
    assert choose_way(replace(new, chunk_obstacle="it has no key")).way == "whole"


def test_way_that_is_asked_for_is_taken():
    assert choose_way(LARGE, "whole").way == "whole"
    assert choose_way(replace(LARGE, size_bytes=0), "chunked").way == "chunked"


def test_what_an_earlier_run_began_goes_on_where_it_can():
    small = replace(LARGE, size_bytes=0, begun="chunked")
    assert choose_way(small).way == "chunked"
    assert choose_way(replace(small, is_live=False)).way == "whole"
    assert choose_way(replace(LARGE, begun="whole")).way == "whole"
