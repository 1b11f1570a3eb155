"""All sources at a glance, whatever their names and sizes are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pgrepl.cli.output.status_overview import WIDTH, overview
from pgrepl.lsn import Lsn
from pgrepl.status import Positions, SourceStatus, Step
from pgrepl.status.problems.problem import Problem
from pgrepl.store.pauses import Pause
from tests.unit.monitor.test_alerts import TABLE, TARGET
from tests.unit.status.test_lag import SOURCE

STEP = Step(Lsn(1), None, 93_784.0)
PROBLEM = Problem(20, "kind", "a message of many words " * 9, "a hint of many words " * 9)


def make(**changed) -> SourceStatus:
    given = {
        "name": "shop",
        "state": "streaming",
        "source": SOURCE,
        "target": TARGET,
        "positions": Positions(Lsn(1), STEP, STEP, STEP),
        "problems": (),
        "wal_bytes_per_s": None,
        **changed,
    }
    return SourceStatus(**given)


@pytest.mark.parametrize(
    "status",
    [
        make(),
        make(source=None, target=None, positions=None, state="absent"),
        make(name="x" * 63, state="not configured", problems=(PROBLEM,) * 12),
        make(source=replace(SOURCE, lsn=Lsn(1123))),
        make(source=replace(SOURCE, lsn=Lsn(10**15))),
        make(name="a\x1b[2J\nb"),
    ],
)
def test_no_line_is_wider_than_a_terminal(status):
    lines = list(overview([status, make()]))
    assert all(len(line) <= WIDTH for line in lines)
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 3 or status.problems


def test_names_are_cut_and_lags_are_not():
    _, row = overview([make(name="x" * 63)])
    assert row.startswith("x" * 16 + "… ")
    assert "<= 1 d 2 h" in row


def test_problems_are_told_whole():
    text = " ".join(" ".join(overview([make(problems=(PROBLEM,))])).split())
    assert f"shop: {PROBLEM.message.strip()}" in text
    assert PROBLEM.hint is not None
    assert PROBLEM.hint.strip() in text


def test_what_a_person_paused_is_not_forgotten():
    at = datetime(2026, 11, 18, 9, tzinfo=UTC)
    tables = [
        replace(TABLE, table_name=f"t{number}", parked_kind="paused", parked_at=at)
        for number in range(7)
    ]
    pause = Pause(1, at, "ann@desk", "month end")
    lines = list(overview([make(target=replace(TARGET, pause=pause, tables=tables))]))
    assert lines[1].split()[1] == "paused"
    assert lines[2:] == [
        "shop: paused since 2026-11-18 09:00:00Z by ann@desk (month end)",
        "shop: public.t0, public.t1, public.t2, public.t3, public.t4 and 2 more paused",
        "  Go on with: pgrepl resume shop",
    ]
