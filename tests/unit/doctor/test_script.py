from __future__ import annotations

import pytest

from pgrepl.doctor.finding import Area, Examination, Finding, Remedy, Status
from pgrepl.doctor.script import psql_script
from pgrepl.errors import ConfigError


def script(*findings, conninfo="dbname=shop host=db"):
    return psql_script([Examination(Area.SOURCE, "shop", findings, conninfo)])


def failure(message="is broken", **remedy):
    return Finding("check", Status.FAILURE, message, Remedy(**remedy))


def test_only_failures_are_mended():
    warning = Finding("other", Status.WARNING, "hm", Remedy(sql=("select 2",)))
    text = script(failure(sql=("select 1",)), warning)
    assert "select 1;" in text
    assert "select 2" not in text


def test_nothing_to_mend_is_said_in_a_comment():
    assert script(Finding.ok("check", "fine")) == "-- Nothing to fix.\n"


def test_shell_commands_and_advice_are_comments():
    lines = script(failure(shell=("apt-get install x",), then="restart")).splitlines()
    assert "-- in a shell: apt-get install x" in lines
    assert "-- then: restart" in lines
    assert all(line.startswith("--") for line in lines if line)


def test_table_name_with_line_breaks_cannot_leave_its_comment():
    text = script(failure(message="bad: x\ndrop table y;\r\n\u2028drop table z;"))
    statements = [line for line in text.splitlines() if line and not line.startswith("--")]
    assert statements == []


def test_database_whose_name_breaks_the_line_is_refused():
    with pytest.raises(ConfigError, match="line break"):
        script(failure(sql=("select 1",)), conninfo="dbname='a\n\\! ls'")
