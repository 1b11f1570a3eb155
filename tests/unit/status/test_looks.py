"""The rate of WAL, from one look to the next."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from math import inf

import pytest

from pgrepl.errors import SourceUnavailable
from pgrepl.lsn import Lsn
from pgrepl.status.facts import SourceFacts
from pgrepl.status.history import points
from pgrepl.status.looks import Looks
from pgrepl.store.monitoring.history import KEPT, Look, resolution_of
from tests.support.observing.facts import NOW, source_facts

FACTS = source_facts(safe_bytes=6000)


def seen(seconds: float, lsn: int) -> SourceFacts:
    return replace(FACTS, clock_at=NOW + timedelta(seconds=seconds), lsn=Lsn(lsn))


def test_rate_is_that_of_the_last_minutes():
    looks = Looks()
    assert looks.wal_rate("a", seen(0, 0)) is None
    assert looks.wal_rate("a", seen(100, 1000)) == 10
    assert looks.wal_rate("b", seen(100, 9000)) is None
    # The first look is too long ago now.
    assert looks.wal_rate("a", seen(401, 1000 + 301 * 50)) == pytest.approx(50)


def test_source_that_is_down_or_another_one_has_no_rate():
    looks = Looks()
    looks.wal_rate("a", seen(0, 5000))
    assert looks.wal_rate("a", SourceUnavailable("down")) is None
    assert looks.wal_rate("a", seen(10, 100)) is None
    assert looks.wal_rate("a", seen(20, 200)) == 10


def test_slot_lasts_as_long_as_its_rest_of_wal():
    assert FACTS.seconds_to_loss(2) == 3000
    assert FACTS.seconds_to_loss(0) == inf
    assert FACTS.seconds_to_loss(None) is None
    assert replace(FACTS, safe_bytes=None).seconds_to_loss(2) is None
    assert replace(FACTS, safe_bytes=-5).seconds_to_loss(2) == 0
    assert replace(FACTS, safe_bytes=None, wal_status="lost").seconds_to_loss(None) == 0
    assert replace(FACTS, plugin=None).seconds_to_loss(2) is None


def look_at(second: int, changes: int) -> Look:
    return Look(
        source_id=1,
        at=NOW + timedelta(seconds=second),
        is_reachable=True,
        is_receiving=True,
        lag_bytes=1,
        lag_seconds=1.0,
        held_bytes=1,
        spool_bytes=1,
        source_lsn=Lsn(second * 100),
        received_transactions=changes,
        received_changes=changes * 2,
        applied_changes=changes,
    )


def test_rates_of_the_past_are_differences_and_a_new_copy_has_none():
    found = points([look_at(0, 10), look_at(10, 30), look_at(20, 0)])
    assert [point.at for point in found] == [NOW + timedelta(seconds=s) for s in (10, 20)]
    first, second = found
    assert (first.received_per_second, first.applied_per_second) == (4, 2)
    assert (first.wal_bytes_per_second, first.transactions_per_second) == (100, 2)
    assert second.received_per_second is None


def test_longer_ago_is_told_less_finely():
    assert resolution_of(timedelta(minutes=5)) == timedelta(seconds=10)
    assert resolution_of(timedelta(hours=6)) == timedelta(minutes=1)
    assert resolution_of(timedelta(days=400)) == timedelta(minutes=10)
    assert all(a < b for a, b in pairwise(KEPT))
    assert sum(kept / length for length, kept in KEPT.items()) == 3816
