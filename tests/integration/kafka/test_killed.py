"""Killed at any boundary, receiving loses nothing and repeats nothing."""

from __future__ import annotations

from typing import Any

import pytest

from pgrepl.errors import TargetError
from pgrepl.postgres.connect import connect
from pgrepl.progress import read_bindings
from pgrepl.receiver import Receiver
from pgrepl.store.sources import find_source
from pgrepl.store.streams import OffsetMove, OffsetsMoved, move_partitions
from tests.integration.kafka.test_upsert import put
from tests.support.program import run_pgrepl
from tests.support.streams.debezium_made import end, event


@pytest.mark.parametrize(
    "place",
    [
        "receiver.stream_added",
        "receiver.table_made",
        "receiver.before_commit",
        "receiver.after_commit_before_feedback",
    ],
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


def test_fenced_receiver_ends_and_says_why(topics, stream_of):
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

    # Another receiver that moves them before each commit of ours.
    stream.target.execute(
        "create function moved() returns trigger language plpgsql as 'begin return null; end'",
        "create trigger moved before update on replication.stream_partition"
        " for each row execute function moved()",
    )
    topics.send(topic, [put(3, "cy")])
    done = run_pgrepl("receive", "feed", "--once", "--config", stream.path)
    assert done.returncode == 75, done.stderr
    assert "another receiver moved the offsets of this source" in done.stderr
    with pytest.raises(OffsetsMoved):
        # Not for ever without --once either.
        Receiver(stream.config, stream.config.source("feed")).run()
    stream.target.execute("drop trigger moved on replication.stream_partition")
    stream.bring()
    assert stream.rows("select id from feed_public.people order by id") == [(1,), (2,), (3,)]


def test_transaction_bigger_than_memory_is_written_in_parts_and_all_or_nothing(topics, stream_of):
    names = {table: topics.make(f"public.{table}", partitions=2) for table in ("left", "right")}
    ends = topics.make("transaction")
    stream = stream_of(*names.values(), envelope="debezium", transaction_topic=ends)
    columns = "(id int primary key, n int, pad text)"
    big_transaction(topics, names, ends, xid=1, count=2)
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    stream.target.execute(*(f"create table feed_public.{name} {columns}" for name in names))
    stream.bring()
    count = 3000
    big_transaction(topics, names, ends, xid=2, count=count)
    done = run_pgrepl(
        *("receive", "feed", "--once", "--config", stream.path),
        env={"PGREPL_FAILPOINT": "receiver.after_part:kill"},
    )
    assert done.returncode == -9, done.stderr
    assert stream.rows("select count(*) from replication.raw_messages") == [(0,)]
    result = stream.receive()
    assert (result.segment_count, result.change_count) == (1, count)
    # Four megabytes are a part of each table.
    ((parts, changes),) = stream.rows(
        "select count(*), sum(change_count) from replication.raw_messages"
    )
    assert parts >= 4
    assert changes == count
    stream.replay()
    totals = [stream.rows(f"select count(*), sum(n) from feed_public.{name}") for name in names]
    assert sum(rows[0][0] for rows in totals) == count + 2
    # What one table gets the other loses, to the last row.
    assert totals[0][0][1] == -totals[1][0][1]


def big_transaction(topics, names, ends, *, xid, count):
    """Send rows of two tables whose sums are each other's negative, then the end."""
    last_commit, lsn = 1000 * xid, 1000 * xid
    records: dict[str, list[Any]] = {name: [] for name in names}
    for order in range(1, count + 1):
        table = ("left", "right")[order % 2]
        row = {"id": 10_000 * xid + order, "n": (order + 1) // 2 * (-1) ** order, "pad": "x" * 3000}
        given = {"xid": xid, "last_commit": last_commit, "lsn": lsn, "order": order}
        own = event("c", table=table, after=row, **given)
        records[table].append(({"id": row["id"]}, own))
    for table, sent in records.items():
        topics.send(names[table], sent)
    counts = {table: len(sent) for table, sent in records.items()}
    topics.send(ends, [({"id": str(xid)}, end(xid, last_commit + 1000, counts))])


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
