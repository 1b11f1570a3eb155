"""Snapshots of a topic with several partitions, which are read one far ahead of the other."""

from __future__ import annotations

from typing import Any

import pytest

from pgrepl.errors import TargetError
from tests.support.streams.debezium_made import end, event

NAMES = "select string_agg(id || name, ' ' order by id) from feed_public.people"


def row(number: int, name: str, lsn: int):
    own = event("r", table="people", after={"id": number, "name": name}, lsn=lsn, snapshot="true")
    return {"id": number}, own


def change(op: str, number: int, name: str, lsn: int):
    rows: dict[str, Any] = {"before" if op == "d" else "after": {"id": number, "name": name}}
    place: dict[str, Any] = {"xid": lsn, "last_commit": lsn - 1, "lsn": lsn, "order": 1}
    return {"id": number}, event(op, table="people", **rows, **place)


@pytest.mark.parametrize("with_ends", [False, True])
def test_snapshot_begun_again_loses_nothing_of_a_partition_that_is_ahead(
    topics, stream_of, with_ends
):
    topic, ends = topics.make("public.people", partitions=2), topics.make("transaction")
    settings = {"transaction_topic": ends} if with_ends else {}
    stream = stream_of(topic, envelope="debezium", **settings)

    def send(partition, *records):
        topics.send(topic, records, partition=partition)
        for _, own in records:
            if own["op"] != "r":
                lsn = own["source"]["lsn"]
                counts = {"people": 1}
                topics.send(ends, [({"id": f"{lsn}:{lsn}"}, end(lsn, lsn + 5, counts))])

    send(0, row(1, "a", 100), change("d", 1, "a", 120))
    send(1, row(2, "b", 100), row(4, "d", 100))
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    stream.target.execute("create table feed_public.people (id int primary key, name text)")
    # Of the newer snapshot, at 300, nothing is in this partition: it had no row then.
    send(0, change("c", 5, "e", 320), change("u", 5, "f", 330))
    stream.bring()
    assert stream.rows(NAMES) == [("2b 4d 5f",)]
    send(1, row(2, "y", 300), change("c", 6, "g", 340))
    stream.bring()
    assert stream.rows(NAMES) == [("2y 5f 6g",)]
    send(0, change("u", 5, "f", 330), change("u", 5, "h", 350))
    assert stream.bring().parked == []
    assert stream.rows(NAMES) == [("2y 5h 6g",)]
    assert stream.rows("select * from replication.parked_record") == []


def test_first_snapshot_loses_nothing_of_a_partition_that_is_ahead(topics, stream_of):
    topic = topics.make("public.people", partitions=2)
    stream = stream_of(topic, envelope="debezium")
    topics.send(topic, [change("c", 5, "e", 320)], partition=0)
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    stream.target.execute("create table feed_public.people (id int primary key, name text)")
    stream.bring()
    topics.send(topic, [row(2, "b", 300), row(4, "d", 300)], partition=1)
    assert stream.bring().parked == []
    assert stream.rows(NAMES) == [("2b 4d 5e",)]
