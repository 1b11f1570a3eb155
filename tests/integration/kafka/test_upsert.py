"""Upsert: the last value of a key wins, a null deletes; each record once."""

from __future__ import annotations

import pytest

from pgrepl.doctor import examine
from pgrepl.drop import drop_source
from pgrepl.errors import SourceError, TargetError
from pgrepl.status import read_status
from tests.support.streams.debezium_made import event

SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "int32", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "field": "name"},
    ],
}
KEY = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}]}


def put(number, name, schema=SCHEMA):
    key = {"schema": KEY, "payload": {"id": number}}
    if name is None:
        return key, None
    return key, {"schema": schema, "payload": {"id": number, "name": name}}


def test_last_value_of_a_key_wins_and_null_deletes(topics, stream_of):
    topic = topics.make("public.people", partitions=3)
    topics.send(topic, [put(1, "ann"), put(2, "bob"), put(3, "cy"), put(1, "anna"), put(2, None)])
    stream = stream_of(topic)
    assert stream.bring().change_count == 5
    assert stream.rows("select * from feed_public.people order by id") == [(1, "anna"), (3, "cy")]

    topics.send(topic, [put(3, None), put(3, "cyd"), put(4, "dee"), put(9, None)])
    stream.bring()
    assert stream.rows("select * from feed_public.people order by id") == [
        (1, "anna"),
        (3, "cyd"),
        (4, "dee"),
    ]
    assert stream.rows(
        "select sum(next_offset)::int, count(*) from replication.stream_partition"
    ) == [(9, 3)]
    # Nothing is left to do, and nothing is done again.
    assert stream.receive().change_count == 0


def test_new_nullable_columns_follow(topics, stream_of):
    topic = topics.make("public.people")
    wider = {
        **SCHEMA,
        "fields": [*SCHEMA["fields"], {"type": "int64", "optional": True, "field": "age"}],
    }
    key, value = put(2, "bob", wider)
    value["payload"]["age"] = 7
    topics.send(topic, [put(1, "ann"), (key, value)])
    stream = stream_of(topic)
    stream.bring()
    assert stream.rows("select id, name, age from feed_public.people order by id") == [
        (1, "ann", None),
        (2, "bob", 7),
    ]


def test_records_without_a_schema_wait_for_their_table_and_others_go_on(topics, stream_of):
    plain = topics.make("public.plain")
    described = topics.make("public.people")
    topics.send(plain, [({"id": 1}, {"n": 1.10, "at": "2024-01-01", "doc": {"a": [1.50, None]}})])
    topics.send(described, [put(1, "ann")])
    stream = stream_of(plain, described)
    with pytest.raises(TargetError, match=r"no table public\.plain"):
        stream.receive()
    stream.replay()
    assert stream.rows("select name from feed_public.people") == [("ann",)]
    stream.target.execute(
        "create table feed_public.plain"
        " (id int primary key, n numeric, at date, doc json, more text)"
    )
    stream.bring()
    assert stream.rows("select id, n::text, at::text, doc::text, more from feed_public.plain") == [
        (1, "1.1", "2024-01-01", '{"a": [1.5, null]}', None)
    ]


@pytest.mark.parametrize("envelope", ["upsert", "debezium"])
def test_schema_that_is_not_ours_is_refused(topics, stream_of, envelope):
    topic, ends = topics.make("public.people"), topics.make("transaction")
    row = event("r", table="people", after={"id": 1}, lsn=5, snapshot="true")
    topics.send(topic, [put(1, "ann") if envelope == "upsert" else ({"id": 1}, row)])
    settings = {"transaction_topic": ends} if envelope == "debezium" else {}
    stream = stream_of(topic, envelope=envelope, **settings)
    stream.target.execute("create schema feed_public")
    with pytest.raises(TargetError, match="not owned by pgrepl"):
        stream.receive()


def test_topic_made_anew_is_refused(topics, stream_of):
    topic = topics.make("public.people")
    topics.send(topic, [put(1, "ann")])
    stream = stream_of(topic)
    stream.bring()
    topics.delete(topic)
    topics.make("public.people")
    topics.send(topic, [put(2, "bob"), put(3, "cy")])
    with pytest.raises(SourceError, match="created again"):
        stream.receive()


def test_doctor_status_and_drop_know_topics(topics, stream_of):
    topic = topics.make("public.people", retention_ms="1000000000")
    topics.send(topic, [put(1, "ann"), (b"\0", b"not JSON")])
    stream = stream_of(topic)
    source = stream.config.source("feed")
    (area, *_) = [e for e in examine(stream.config, [source], {}, spark=False) if e.name == "feed"]
    assert [(f.check, f.status.value) for f in area.findings] == [
        ("reachable", "ok"),
        ("topics", "ok"),
        ("retention", "ok"),
        ("records", "failure"),
    ]
    assert "it is not JSON" in area.findings[-1].message
    stream.receive()
    status = read_status(stream.config, [source]).sources[0]
    assert status.positions is not None
    assert status.positions.flushed.lag_bytes == 0
    assert [problem.kind for problem in status.problems] == ["parked-records"]
    stream.replay()
    report = drop_source(stream.config, source, with_data=True)
    assert not report.errors
    assert stream.rows(
        "select to_regclass('feed_public.people'), to_regnamespace('replication')"
    ) == [(None, None)]
