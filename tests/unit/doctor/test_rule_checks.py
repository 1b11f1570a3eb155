"""What doctor says of rules."""

from __future__ import annotations

import pytest

from pgrepl.catalog.rule_facts import RuleProblem
from pgrepl.config.rules import Rules
from pgrepl.doctor.checks.source.rule_checks import check_rules
from pgrepl.doctor.finding import Status
from tests.support.running.ruled import SALT, rule

RULES = Rules((rule("a.b", hash=("x",)),))
WRONG = RuleProblem("a.b", 'column "x" is NOT NULL')
ABSENT = RuleProblem("a.b", 'it has no column "x"', is_failure=False)


@pytest.mark.parametrize(
    ("problems", "salt", "status", "text"),
    [
        ([], SALT, Status.OK, "1 column masked"),
        ([WRONG, ABSENT], SALT, Status.FAILURE, "NOT NULL"),
        ([ABSENT], SALT, Status.WARNING, "no column"),
        ([], "short", Status.FAILURE, "too short"),
    ],
)
def test_rules_are_judged(monkeypatch, problems, salt, status, text):
    monkeypatch.setenv("PGREPL_SALT", salt)
    found = check_rules(RULES, problems, is_captured=True)
    assert (found.status, text in found.message) == (status, True)
    assert (found.remedy is None) == (status is Status.OK)


def test_rules_need_the_capture_of_ddl(monkeypatch):
    monkeypatch.setenv("PGREPL_SALT", SALT)
    assert check_rules(RULES, [], is_captured=False).status is Status.FAILURE


def test_source_without_rules_is_well():
    assert check_rules(Rules(), [], is_captured=False).status is Status.OK
