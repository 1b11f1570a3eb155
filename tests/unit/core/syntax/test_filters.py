"""Which columns the expression of a filter reads."""

from __future__ import annotations

import pytest

from pgrepl.syntax.filters import filter_columns
from pgrepl.syntax.parse import SqlSyntaxError


@pytest.mark.parametrize(
    ("where", "columns"),
    [
        ("a > 5 and \"B\" = 'x'", {"a", "B"}),
        ("A is null -- a comment", {"a"}),
        ("true", set()),
        ("a) or (b", {"a", "b"}),
    ],
)
def test_columns_are_found_by_their_names(where, columns):
    assert filter_columns(where) == columns


@pytest.mark.parametrize(
    "where",
    [
        *("", "a)", "a) from x where (b", "a), (b", "a) union select (b", "a) limit (1"),
        *("a); drop table x; select (1", "a) as x, (b", "t.a > 1", "t.*", "a) order by (b"),
    ],
)
def test_what_is_no_expression_over_columns_is_refused(where):
    with pytest.raises(SqlSyntaxError):
        filter_columns(where)
