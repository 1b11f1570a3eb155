"""Topics and brokers that change while they are read: nothing is stepped over, nothing repeated."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)

from pgrepl.doctor import examine
from pgrepl.errors import SourceError, TargetError
from pgrepl.receiver import Receiver, ReceiverSettings
from pgrepl.receiver.kafka.stream import KafkaStream
from tests.integration.kafka.test_upsert import put
from tests.support.streams.debezium_made import event
from tests.support.streams.kafka import Topics
from tests.support.waiting import wait_until


def delete_before(topics, topic, offset):
    for future in topics.admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result()


def set_option(topics, topic, name, value):
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    for future in topics.admin.incremental_alter_configs([resource]).values():
        future.result()


def test_topic_created_again_while_it_is_read_is_refused(topics, stream_of, monkeypatch):
    topic = topics.make("public.people")
    topics.send(topic, [put(1, "ann")])
    stream = stream_of(topic)
    stream.bring()
    topics.send(topic, [put(2, "bob")])
    assign = KafkaStream.assign

    def create_again(self):
        """Between what is checked at the start and the first record."""
        topics.delete(topic)
        topics.make("public.people")
        topics.send(topic, [put(number, "other") for number in range(10, 13)])
        assign(self)

    monkeypatch.setattr(KafkaStream, "assign", create_again)
    with pytest.raises(SourceError, match="created again"):
        stream.receive()
    stream.replay()
    assert stream.rows("select * from feed_public.people") == [(1, "ann")]


def test_records_deleted_before_they_were_received_are_refused(topics, stream_of):
    topic = topics.make("public.people")
    topics.send(topic, [put(number, "x") for number in range(3)])
    stream = stream_of(topic)
    stream.bring()
    topics.send(topic, [put(number, "y") for number in range(5)])
    # What was received may go.
    delete_before(topics, topic, 3)
    stream.bring()
    topics.send(topic, [put(number, "z") for number in range(5)])
    delete_before(topics, topic, 10)
    with pytest.raises(SourceError, match="has no offset 8 any more") as caught:
        stream.receive()
    assert "retained" in (caught.value.hint or "")
    assert stream.rows("select distinct name from feed_public.people") == [("y",)]


def test_events_of_a_topic_that_is_compacted_later_are_refused(topics, stream_of):
    topic = topics.make("public.people")
    row = {"id": 1, "name": "ann"}
    created = event("c", after=row, table="people", last_commit=1000, lsn=1000, order=1)
    topics.send(topic, [({"id": 1}, created)])
    stream = stream_of(topic, envelope="debezium")
    with pytest.raises(TargetError, match="no table"):
        stream.receive()
    set_option(topics, topic, "cleanup.policy", "compact")
    with pytest.raises(SourceError, match=r'is compacted.*envelope = "debezium" needs'):
        stream.receive()


def test_topic_that_gets_more_partitions_is_followed_and_said(topics, stream_of, caplog):
    topic = topics.make("public.people")
    topics.send(topic, [put(number, "x") for number in range(3)])
    stream = stream_of(topic)
    stream.bring()
    assert "more partitions" not in caplog.text
    for future in topics.admin.create_partitions([NewPartitions(topic, 2)]).values():
        future.result()

    def count_partitions():
        return len(topics.admin.list_topics(topic, timeout=60).topics[topic].partitions)

    wait_until(lambda: count_partitions() == 2)
    # A producer that knows of them.
    Topics(topics.broker).send(topic, [put(number, "y") for number in range(3, 6)])
    stream.bring()
    assert stream.rows("select count(*) from feed_public.people") == [(6,)]
    assert f'"{topic}" has more partitions than before' in caplog.text
    # Whoever did not see it grow is told by doctor.
    source = stream.config.source("feed")
    (area, *_) = [e for e in examine(stream.config, [source], {}, spark=False) if e.name == "feed"]
    (grown,) = [finding for finding in area.findings if finding.check == "partitions"]
    assert "with 1 of 2 partitions" in grown.message


@pytest.mark.soak
def test_broker_that_goes_and_comes_back_is_waited_for(topics, stream_of):
    topic = topics.make("public.people")
    topics.send(topic, [put(number, "before") for number in range(5)])
    stream = stream_of(topic)
    config = stream.config
    receiver = Receiver(
        config,
        config.source("feed"),
        settings=ReceiverSettings(backoff_s=0.05, backoff_limit_s=0.2),
    )
    failed = []

    def run():
        try:
            receiver.run(once=False)
        except BaseException as exc:  # noqa: BLE001  the test raises it
            failed.append(exc)

    def await_offset(offset):
        query = "select coalesce(sum(next_offset), 0)::int from replication.stream_partition"
        end = time.monotonic() + 60
        while stream.rows(query) != [(offset,)]:
            assert not failed, failed
            assert time.monotonic() < end
            time.sleep(0.05)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        await_offset(5)
        topics.broker.stop()
        topics.broker.start()
        topics.send(topic, [put(number, "after") for number in range(3, 8)])
        await_offset(10)
    finally:
        receiver.stop()
        thread.join()
    assert not failed
    stream.replay()
    assert stream.rows("select name, count(*) from feed_public.people group by 1 order by 1") == [
        ("after", 5),
        ("before", 3),
    ]
