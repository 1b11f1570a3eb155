"""Which segments make a batch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.replayer.batches import Limits, plan_batch, shard_buckets, slice_counts
from pgrepl.store.spool.spool_rows import Segment

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ALL = Limits(seconds=1000, changes=1000)


def segment(seq: int, **given: Any) -> Segment:
    at = BEGIN + timedelta(seconds=seq)
    values: dict[str, Any] = {
        "kind": "parallel",
        "first_lsn": Lsn(seq * 100),
        "last_lsn": Lsn(seq * 100 + 50),
        "first_commit_at": at,
        "last_commit_at": at,
        "change_count": 10,
        "buckets": [seq % 64],
        "part_count": 1,
        "written_count": 1,
    }
    return Segment(seq=seq, **(values | given))


def test_nothing_spooled_is_nothing_to_do():
    assert plan_batch([], 0, ALL) is None


def test_batch_is_all_up_to_the_limits():
    batch = plan_batch([segment(5), segment(6), segment(7)], 4, ALL)
    assert batch is not None
    assert (batch.from_seq, batch.to_seq, batch.change_count) == (4, 7, 30)
    assert (batch.first_lsn, batch.last_lsn) == (Lsn(500), Lsn(750))
    assert batch.buckets == {5, 6, 7}


def test_serial_segment_is_a_barrier_before_and_behind():
    segments = [segment(1), segment(2, kind="serial", buckets=[-1]), segment(3)]
    ends = []
    done = 0
    while done < 3:
        batch = plan_batch(segments[done:], done, ALL)
        assert batch is not None
        done = batch.to_seq
        ends.append((batch.kind, done))
    assert ends == [("parallel", 1), ("serial", 2), ("parallel", 3)]


@pytest.mark.parametrize(
    ("limits", "end"),
    [
        (Limits(seconds=1000, changes=25), 2),
        (Limits(seconds=1000, changes=1), 1),
        (Limits(seconds=2, changes=1000), 3),
        (Limits(seconds=0, changes=1000), 1),
        (Limits(seconds=1000, changes=1000, until=Lsn(250)), 2),
        (Limits(seconds=1000, changes=1000, until=Lsn(301)), 3),
    ],
)
def test_limits_end_a_batch_but_one_segment_always_goes(limits, end):
    batch = plan_batch([segment(n) for n in range(1, 6)], 0, limits)
    assert batch is not None
    assert batch.to_seq == end


def test_serial_segments_that_follow_one_another_go_together_up_to_their_limits():
    run = [segment(n, kind="serial", change_count=n) for n in range(1, 5)] + [segment(5)]
    for limits, end in (
        (Limits(seconds=1, changes=1, serial_segments=9, serial_changes=99), 4),
        (Limits(seconds=1, changes=1, serial_segments=3, serial_changes=99), 3),
        (Limits(seconds=1, changes=1, serial_segments=9, serial_changes=5), 2),
        (Limits(seconds=1, changes=1, serial_segments=9, serial_changes=0), 1),
    ):
        batch = plan_batch(run, 0, limits)
        assert batch is not None
        assert (batch.kind, batch.to_seq, batch.is_single) == ("serial", end, end == 1)


def test_position_before_the_first_segment_leaves_nothing_to_do():
    assert plan_batch([segment(3)], 2, Limits(seconds=9, changes=9, until=Lsn(300))) is None


def test_missing_segment_is_damage():
    with pytest.raises(SpoolError, match="segment 2 is missing, the next one is 3"):
        plan_batch([segment(1), segment(3)], 0, ALL)


def test_missing_row_of_a_segment_is_damage():
    with pytest.raises(SpoolError, match="segment 1 has 2 rows, 3 were written"):
        plan_batch([segment(1, part_count=2, written_count=3)], 0, ALL)


def test_damage_behind_a_limit_is_not_looked_at_yet():
    corrupted = segment(3, part_count=0)
    batch = plan_batch([segment(1), segment(2), corrupted], 0, Limits(seconds=9, changes=20))
    assert batch is not None
    assert batch.to_seq == 2


def test_buckets_are_dealt_by_their_number():
    assert shard_buckets(frozenset({0, 1, 4, 6, 63}), 4) == {0: [0, 4], 1: [1], 2: [6], 3: [63]}


def test_batch_knows_the_changes_of_each_bucket():
    segments = [
        segment(1, buckets=[3, 7], bucket_changes=[1, 20]),
        segment(2, buckets=[7], bucket_changes=[5]),
    ]
    batch = plan_batch(segments, 0, ALL)
    assert batch is not None
    assert batch.bucket_changes == {3: 1, 7: 25}


@pytest.mark.parametrize(
    ("changes", "shard_count", "expected"),
    [
        # Another table with one change does not keep a session from the one with all others.
        ({0: 299_999, 1: 1}, 2, {0: 2, 1: 1}),
        ({0: 100}, 4, {0: 4}),
        ({0: 100, 1: 100}, 4, {0: 2, 1: 2}),
        ({0: 100, 1: 100, 2: 100}, 4, {0: 2, 1: 2, 2: 2}),
        ({0: 120, 1: 100, 2: 100, 3: 80}, 4, {0: 1, 1: 1, 2: 1, 3: 1}),
        ({0: 1}, 1, {0: 1}),
    ],
)
def test_sessions_are_dealt_by_the_changes_of_shards(changes, shard_count, expected):
    dealt = shard_buckets(frozenset(changes), shard_count)
    assert slice_counts(dealt, changes, shard_count) == expected


def test_shards_whose_changes_nobody_counted_share_evenly():
    assert slice_counts({0: [0], 1: [1]}, {}, 4) == {0: 2, 1: 2}
