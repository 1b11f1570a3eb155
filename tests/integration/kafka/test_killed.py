"""Killed at any boundary, receiving loses nothing and repeats nothing."""

from __future__ import annotations

import pytest

from pgrepl.postgres.connect import connect
from pgrepl.progress import read_bindings
from pgrepl.store.sources import find_source
from pgrepl.store.streams import OffsetMove, OffsetsMoved, move_partitions
from tests.integration.kafka.test_upsert import put
from tests.support.program import run_pgrepl


@pytest.mark.parametrize(
    "place", ["receiver.before_commit", "receiver.after_commit_before_feedback"]
)
def test_killed_receiver_goes_on_where_the_target_is(topics, stream_of, place):
    topic = topics.make("public.people", partitions=2)
    stream = stream_of(topic)
    topics.send(topic, [put(number, "first") for number in range(40)])
    done = run_pgrepl(
        "receive",
        "feed",
        "--once",
        "--config",
        stream.path,
        env={"PGREPL_FAILPOINT": f"{place}:kill"},
    )
    assert done.returncode == -9
    topics.send(topic, [put(number, "second") for number in range(20, 60)])
    stream.bring()
    assert stream.rows("select name, count(*) from feed_public.people group by 1 order by 1") == [
        ("first", 20),
        ("second", 40),
    ]
    assert stream.rows("select sum(next_offset)::int from replication.stream_partition") == [(80,)]


def test_offsets_that_another_moved_fence_a_receiver(topics, stream_of):
    topic = topics.make("public.people")
    stream = stream_of(topic)
    topics.send(topic, [put(1, "ann"), put(2, "bob")])
    stream.receive()
    with connect(stream.config.target.endpoint, "test") as connection:
        source = find_source(connection, "feed")
        assert source is not None
        with pytest.raises(OffsetsMoved):
            move_partitions(connection, source.source_id, [OffsetMove(topic, 0, 1, 3)])
    assert stream.rows("select next_offset from replication.stream_partition") == [(2,)]


def test_progress_tells_offsets(topics, stream_of):
    topic = topics.make("public.people")
    stream = stream_of(topic)
    for name in ("ann", "anna"):
        topics.send(topic, [put(1, name)])
        stream.bring()
    with read_bindings(stream.config.target.endpoint, "feed") as bindings:
        first, second = bindings.newest(2)
        offsets = [[own.next_offset for own in bindings.offsets(b)] for b in (first, second)]
    assert offsets == [[1], [2]]
    done = run_pgrepl(
        *("progress", "feed", "--as-of", first.at.isoformat(), "--config", stream.path)
    )
    assert done.stdout.splitlines()[1] == f"  {topic} 0 1"
