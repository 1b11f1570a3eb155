"""Names of PostgreSQL's that may mean what only the source has."""

from __future__ import annotations

import pytest

from pgrepl.ddl_capture.decode.event import Homonyms
from pgrepl.ddl_capture.policy.homonyms import reason_of_homonyms
from pgrepl.syntax.parse import parse_one

OWN = Homonyms(functions=["lower", "log"], operators=["+", "=", "<="], has_casts=False)
NONE = Homonyms(functions=[], operators=[], has_casts=False)


def expression(sql):
    return parse_one(f"select {sql}").select_stmt.target_list[0].res_target.val


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("lower(a)", "function"),
        ("app.lower(a)", "function"),
        ("a * (b + 1)", "operator"),
        ("case a when 1 then 2 end", "operator"),
        ("a in (1, 2)", "operator"),
        ("a between 1 and 2", "operator"),
    ],
)
def test_name_may_be_the_sources_own(sql, what):
    assert f"{what} that the source may have" in (reason_of_homonyms([expression(sql)], OWN) or "")
    assert reason_of_homonyms([expression(sql)], NONE) is None


@pytest.mark.parametrize(
    "sql", ["pg_catalog.lower(a)", "a operator(pg_catalog.+) 1", "upper(a) || b", "a::text", "5"]
)
def test_name_can_only_be_postgresqls(sql):
    assert reason_of_homonyms([expression(sql)], OWN) is None


def test_casts_have_no_names():
    casts = Homonyms(functions=[], operators=[], has_casts=True)
    assert reason_of_homonyms([], casts) is not None
    assert reason_of_homonyms([expression("a")], casts) is not None
    assert reason_of_homonyms([expression("5")], casts) is not None
    assert reason_of_homonyms([expression("'5'")], casts) is None


def test_older_capture_proves_nothing_of_names():
    assert reason_of_homonyms([expression("a + 1")], None) is not None
    assert reason_of_homonyms([expression("a::text")], None) is None
