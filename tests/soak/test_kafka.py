"""Many rounds of a real Debezium that is killed; thousands of records that cannot be read."""

from __future__ import annotations

import random

import pytest

from pgrepl.throwaway import Broker
from tests.support.database import Database
from tests.support.debezium_live import LiveDebezium
from tests.support.kafka import Stream, Topics


@pytest.mark.timeout(3600)
def test_debezium_killed_again_and_again(
    source: Database, target: Database, broker: Broker, tmp_path
):
    chance = random.Random(7)
    live = LiveDebezium(source, Topics(broker), tmp_path, seed=7)
    stream = Stream(target, tmp_path, kind="kafka", bootstrap=broker.bootstrap, **live.settings())
    for _ in range(10):
        live.run(die_after=chance.randrange(5, 120), transactions=40)
        stream.bring()
        assert stream.rows("select coalesce(sum(amt::numeric), 0) from feed_public.orders") == [
            (0,)
        ]
    live.run()
    stream.bring()
    live.assert_equal(stream)


@pytest.mark.timeout(1200)
def test_ten_thousand_corrupt_records_harm_only_themselves(
    target: Database, broker: Broker, tmp_path
):
    topics = Topics(broker)
    topic = topics.make("public.people")
    topics.send(topic, [(b"{}", b"not JSON")] * 10_000)
    topics.send(topic, [({"id": 1}, {"id": 1, "name": "ann"})])
    stream = Stream(target, tmp_path, kind="kafka", bootstrap=broker.bootstrap, topics=[topic])
    other = topics.make("public.others")
    schema = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}]}
    topics.send(other, [({"schema": schema, "payload": {"id": 1}},) * 2])
    stream.write_config(topics=[topic, other])
    with pytest.raises(Exception, match=r"no table public\.people"):
        stream.receive()
    stream.replay()
    assert stream.rows("select id from feed_public.others") == [(1,)]
    assert stream.rows("select count(*) from replication.parked_record") == [(10_000,)]
