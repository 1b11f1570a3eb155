"""Records that nobody expects: of aborted transactions, without a key."""

from __future__ import annotations

import json

from confluent_kafka import Producer

from tests.integration.kafka.test_upsert import KEY, put
from tests.support.streams.kafka import CLIENT_LOG


def sent(producer, topic, *pairs):
    for key, value in pairs:
        producer.produce(topic, json.dumps(value).encode(), json.dumps(key).encode())
    producer.flush()


def test_transactions_that_are_aborted_or_open_are_not_received(topics, stream_of):
    topic = topics.make("public.people")
    settings = {"bootstrap.servers": topics.broker.bootstrap, "transactional.id": topics.prefix}
    producer = Producer(settings, logger=CLIENT_LOG)
    producer.init_transactions()
    for name, end in (("ann", producer.commit_transaction), ("bob", producer.abort_transaction)):
        producer.begin_transaction()
        sent(producer, topic, put(1, name), put(2, name))
        end()
    stream = stream_of(topic)
    stream.bring()
    rows = "select * from feed_public.people order by id"
    assert stream.rows(rows) == [(1, "ann"), (2, "ann")]
    producer.begin_transaction()
    sent(producer, topic, put(2, "cy"))
    # Another writer, after it: nothing that stands after an open transaction is read.
    topics.send(topic, [put(3, "dee")])
    assert stream.receive().change_count == 0
    producer.commit_transaction()
    stream.bring()
    assert stream.rows(rows) == [(1, "ann"), (2, "cy"), (3, "dee")]
    assert stream.receive().change_count == 0


def test_deletes_of_rows_that_nobody_has_do_nothing_and_what_has_no_key_is_parked(
    topics, stream_of
):
    topic = topics.make("public.people", partitions=2)
    keyless, null = put(4, "no key")[1], {"schema": KEY, "payload": {"id": None}}
    topics.send(topic, [put(1, None), put(7, None)])
    topics.send(topic, [(None, keyless), (None, None), (null, keyless), (b"", keyless)])
    topics.send(topic, [put(1, "ann"), put(2, None), put(2, "bob"), put(1, None)])
    stream = stream_of(topic)
    result = stream.bring()
    assert (result.error, result.parked) == (None, [])
    assert stream.rows("select * from feed_public.people") == [(2, "bob")]
    assert len(stream.rows("select from replication.parked_record")) == 4
