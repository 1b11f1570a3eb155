"""Exports to topics: each change once under read_committed, whoever is killed, and back again."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from pgrepl.errors import SpoolError
from pgrepl.export.plan import ExportSettings
from pgrepl.export.run import Exporter
from pgrepl.export.sinks.destinations import KafkaDestination, make_plan
from pgrepl.export.sinks.kafka_address import KafkaAddress
from tests.support.streams.exporting import run_until_killed
from tests.support.streams.kafka import CLIENT_LOG, Stream, Topics
from tests.support.workloads.random_source import CHANGES

TABLES = [
    "create table plain (id int primary key, u int, n numeric, note text)",
    (
        "create table wide (a int, b text, body text, n int, primary key (a, b));"
        " alter table wide alter body set storage external"
    ),
    "create table bag (x int, y text); alter table bag replica identity full",
    (
        "create table whole (id int primary key, x int, body text);"
        " alter table whole replica identity full, alter body set storage external"
    ),
    (
        "create table by_index (id int, k int not null, n int);"
        " create unique index by_index_k on by_index (k);"
        " alter table by_index replica identity using index by_index_k"
    ),
]
NAMES = ["plain", "wide", "bag", "whole", "by_index"]


class KafkaExport:
    """An export to the tests' broker."""

    def __init__(self, live, topics, *, partitions=1, has_schemas=True, envelope="debezium"):
        self.live = live
        self.prefix = topics.prefix
        self.address = KafkaAddress(topics.broker.bootstrap, topics.prefix, partitions)
        self.has_schemas = has_schemas
        self.envelope = envelope
        self.batch_changes = 50_000
        self.has_snapshot = False

    def run(self, *, restart=False):
        return self.exporter().run(once=True, restart=restart)

    def exporter(self):
        plan = make_plan(
            "shop",
            KafkaDestination(self.address),
            tables=("app.*",),
            envelope=self.envelope,
            consumer=None,
            has_snapshot=self.has_snapshot,
            has_schemas=self.has_schemas,
            keep=timedelta(days=1),
        )
        config = self.live.config
        settings = ExportSettings(batch_changes=self.batch_changes, backoff_s=0.01)
        return Exporter(config, config.sources["shop"], plan, settings)

    def records(self, table, partitions=1):
        """Return what those see who read what is committed: key, value, headers."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.address.bootstrap,
                "group.id": "test",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            },
            logger=CLIENT_LOG,
        )
        topic = f"{self.prefix}.{table}"
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(partitions)])
        found: list[Any] = []
        ended: set[int | None] = set()
        while len(ended) < partitions:
            message = consumer.poll(60)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                ended.add(message.partition())
                continue
            key, value = (
                None if text is None else json.loads(text)
                for text in (message.key(), message.value())
            )
            found.append((key, value, dict(message.headers() or ())))
        consumer.close()
        return found


@pytest.fixture
def topics(broker):
    return Topics(broker)


PLACES = [
    "export.before_prepare",
    "export.after_prepare",
    "export.before_commit",
    "export.in_kafka_transaction",
    "export.after_commit",
]


def test_export_that_dies_anywhere_loses_and_repeats_nothing(live_of, topics):
    live = live_of("wal2json", *TABLES)
    live.source.execute("insert into app.plain values (0, 0, 0, 'there')")
    live.follow()
    export = KafkaExport(live, topics, has_schemas=False)
    export.has_snapshot = True
    for place in (
        "export.consumer_added",
        "export.in_snapshot",
        "export.after_prepare",
        "export.before_commit",
    ):
        assert run_until_killed(f"{place}:kill", export.run)
    export.run()
    for number, place in enumerate(PLACES, 1):
        live.source.execute(
            f"begin; insert into app.plain values ({number}, 0, 1.5, 'x');"
            f" insert into app.bag values ({number}, 'y'); commit"
        )
        live.follow()
        assert run_until_killed(f"{place}:kill", export.run)
    export.run()
    found = export.records("app.plain")
    assert [(key["id"], value["op"]) for key, value, _ in found] == [
        (0, "r"),
        *((number, "c") for number in range(1, 6)),
    ]
    assert [value["after"]["x"] for _, value, _ in export.records("app.bag")] == [1, 2, 3, 4, 5]
    ends = [value for _, value, _ in export.records("transaction") if value["status"] == "END"]
    assert [end["event_count"] for end in ends] == [2] * 5
    # A topic that does not know of what was written is another: nothing is stepped over.
    live.source.execute("delete from app.plain where id = 1")
    live.follow()
    topics.delete(f"{topics.prefix}.pgrepl-shop-kafka")
    with pytest.raises(SpoolError, match="says that 0 batches were written"):
        export.run()
    export.prefix, export.address = "other", KafkaAddress(topics.broker.bootstrap, "other", 1)
    export.has_snapshot = False
    export.run(restart=True)


@pytest.mark.parametrize("plugin", [pytest.param("wal2json", marks=pytest.mark.soak), "pgoutput"])
def test_random_changes_come_back_through_our_own_source(
    live_of, topics, tmp_path, make_migrated, plugin
):
    chance = random.Random(7)
    live = live_of(plugin, *TABLES)
    live.source.execute(
        "set search_path = app; insert into plain select g, g, g, 'n' from generate_series(1, 9) g;"
        " insert into wide select g, 'b', repeat(md5(g::text), 80), g from generate_series(1, 9) g"
    )
    live.follow()
    export = KafkaExport(live, topics)
    export.has_snapshot = True
    export.batch_changes = 20
    export.run()
    statements = [text for text in CHANGES if "parts" not in text and " whole (x" not in text]
    statements += ["insert into whole values ({a}, {x}, repeat(md5('{x}'), 80))", "truncate bag"]
    for number in range(60):
        chosen = [
            chance.choice(statements).format(
                a=chance.randrange(12), b=chance.randrange(12), x=chance.randrange(1000)
            )
            for _ in range(chance.randrange(1, 5))
        ]
        with suppress(psycopg.Error):
            live.source.execute(f"set search_path = app; begin; {'; '.join(chosen)}; commit")
        if number % 15 == 14:
            live.receive()
            export.run()
    live.follow()
    export.run()
    second = make_migrated()
    folder = tmp_path / "second"
    folder.mkdir()
    stream = Stream(
        second,
        folder,
        kind="kafka",
        bootstrap=topics.broker.bootstrap,
        topics=[f"^{topics.prefix}\\.app\\..*"],
        envelope="debezium",
        transaction_topic=f"{topics.prefix}.transaction",
        debezium={"decimal.handling.mode": "string"},
    )
    stream.bring()
    assert stream.rows("select count(*) from replication.parked_record") == [(0,)]
    for name in NAMES:
        here = live.source.rows(f"select t::text from app.{name} t")
        there = second.rows(f"select t::text from feed_app.{name} t")
        assert sorted(here) == sorted(there), name


def test_keys_go_where_java_puts_them(live_of, topics):
    live = live_of("wal2json", TABLES[0])
    live.follow()
    export = KafkaExport(live, topics, partitions=3, has_schemas=False, envelope="upsert")
    export.run()
    live.source.execute("insert into app.plain select g, 0, 1, 'x' from generate_series(1, 20) g")
    live.source.execute("delete from app.plain where id = 7")
    live.follow()
    export.run()
    found = export.records("app.plain", 3)
    assert len(found) == 21
    assert [value for key, value, _ in found if key == {"id": 7}][-1] is None
    # The same keys, written by a producer with Java's partitioner, meet those.
    topics.send(f"{topics.prefix}.app.plain", [(b'{"id":%d}' % n, b"1") for n in range(1, 21)])
    by_partition: dict[Any, set[int | None]] = {}
    consumer = Consumer(
        {
            "bootstrap.servers": topics.broker.bootstrap,
            "group.id": "t",
            "enable.partition.eof": True,
        },
        logger=CLIENT_LOG,
    )
    topic = f"{topics.prefix}.app.plain"
    consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(3)])
    ended = 0
    while ended < 3:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is not None:
            ended += 1
        else:
            by_partition.setdefault(message.key(), set()).add(message.partition())
    consumer.close()
    assert all(len(places) == 1 for places in by_partition.values())
    assert len({place for places in by_partition.values() for place in places}) == 3
