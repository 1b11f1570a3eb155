"""Lag in bytes and seconds, over made-up positions and clocks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from pgrepl.lsn import Lsn
from pgrepl.status.facts import TargetFacts
from pgrepl.status.lag import measure
from pgrepl.status.problems.judge import worst_code
from pgrepl.status.problems.problem import Problem
from pgrepl.store.monitoring.overview import SourceOverview
from tests.support.observing.facts import NOW, source_facts


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


SOURCE = source_facts(
    lsn=Lsn(1000),
    restart_lsn=Lsn(100),
    confirmed_lsn=Lsn(500),
    sent_lsn=Lsn(1000),
    write_lsn=Lsn(900),
    receiver_since=ago(3600),
)
ROW = SourceOverview(
    source_id=1,
    name="shop",
    slot="pgrepl_shop",
    dbname="shop",
    system_identifier=1,
    timeline=1,
    state="streaming",
    consistent_point=Lsn(100),
    created_at=ago(9000),
    last_seq=7,
    received_lsn=Lsn(800),
    commit_at=ago(40),
    received_at=ago(3),
    transaction_count=1,
    received_change_count=1,
    serial_transaction_count=0,
    serial_change_count=0,
    ends_in_changes=True,
    has_origin=True,
    origin_lsn=Lsn(800),
    applied_lsn=Lsn(300),
    waiting_lsn=Lsn(300),
    waiting_since=ago(70),
    segment_count=1,
    change_count=1,
    byte_count=1,
    oldest_commit_at=ago(80),
    published_at=ago(75),
    published_lsn=Lsn(250),
    applied_bytes_per_s=None,
    ready_count=1,
)


def measured(source=SOURCE, clock_at=NOW, **changed):
    target = TargetFacts(clock_at, replace(ROW, **changed), (), (), (), 0, {})
    return measure(source, target)


def test_each_step_is_behind_by_its_own_bytes():
    found = measured()
    assert (found.source, found.received.lsn, found.flushed.lsn, found.applied.lsn) == (
        1000,
        900,
        800,
        300,
    )
    assert [s.lag_bytes for s in (found.received, found.flushed, found.applied)] == [100, 200, 700]


def test_seconds_count_from_the_newest_commit_when_changes_came_last():
    found = measured()
    assert (found.flushed.lag_s, found.applied.lag_s) == (40, 70)


def test_seconds_count_from_the_last_word_of_the_source_when_no_changes_came():
    assert measured(ends_in_changes=False).flushed.lag_s == 3


def test_seconds_count_from_the_copy_before_anything_is_received():
    nothing = {"received_lsn": None, "received_at": None, "commit_at": None}
    found = measured(**nothing, ends_in_changes=False, waiting_since=None)
    assert (found.flushed.lsn, found.flushed.lag_s) == (100, 9000)


def test_step_that_has_everything_has_no_lag():
    found = measured(received_lsn=Lsn(1000), waiting_since=None)
    assert [s.lag_s for s in (found.received, found.flushed, found.applied)] == [0, 0, 0]


def test_what_came_while_we_asked_is_no_negative_lag():
    found = measured(received_lsn=Lsn(1200), waiting_since=None)
    assert (found.flushed.lag_bytes, found.applied.lag_bytes) == (0, 0)


def test_newest_binding_counts_where_it_is_ahead_of_the_segments():
    assert measured(published_lsn=Lsn(350)).applied.lsn == 350


@pytest.mark.parametrize("skew_s", [-3600, 3600])
def test_commit_times_are_held_against_the_clock_that_wrote_them(skew_s):
    skew = timedelta(seconds=skew_s)
    source = replace(SOURCE, clock_at=NOW + skew)
    times = {"commit_at": ago(40) + skew, "waiting_since": ago(70) + skew}
    found = measured(source, **times)
    assert (found.flushed.lag_s, found.applied.lag_s) == (40, 70)


def test_source_that_is_down_leaves_bytes_unknown_and_seconds_at_most():
    found = measured(None)
    assert found.source is found.applied.lag_bytes is None
    assert (found.flushed.lag_s, found.applied.lag_s) == (40, 70)


def test_clock_of_a_source_that_is_down_makes_no_negative_lag():
    assert measured(None, commit_at=NOW + timedelta(hours=1), waiting_since=None).flushed.lag_s == 0


@pytest.mark.parametrize("state", ["creating", "copying"])
def test_source_that_does_not_stream_has_no_positions(state):
    assert measured(state=state) is None


@pytest.mark.parametrize(
    ("codes", "worst"),
    [((), 0), ((70,), 70), ((70, 50), 50), ((50, 20), 20), ((40, 20, 70), 20), ((20, 30), 30)],
)
def test_exit_code_is_that_of_the_worst_problem(codes, worst):
    assert worst_code(Problem(code, "kind", "message") for code in codes) == worst
