"""What happens to an export from outside, in the middle of a batch: exact, or said."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from psycopg.types.json import Jsonb

from pgrepl.errors import AlreadyRunning, ConfigError, SpoolError, TargetUnavailable
from pgrepl.export import position
from pgrepl.export.sinks import kafka
from pgrepl.export.sinks.kafka_address import KafkaAddress
from pgrepl.postgres.advisory_locks import export_lock, take_lock
from pgrepl.postgres.connect import connect
from tests.integration.export.test_kafka import KafkaExport
from tests.support.streams.exporting import FileExport
from tests.support.streams.kafka import CLIENT_LOG, Topics
from tests.support.waiting import wait_until

TABLE = "create table plain (id int primary key, note text)"


@pytest.fixture
def topics(broker):
    return Topics(broker)


class Case:
    """An export, and changes that it has not written yet."""

    def __init__(self, live, topics, monkeypatch):
        self.live = live
        self.monkeypatch = monkeypatch
        self.export = KafkaExport(live, topics, has_schemas=False)
        self.topic = f"{topics.prefix}.app.plain"
        self.number = 0

    def change(self):
        self.number += 1
        self.live.source.execute(f"insert into app.plain values ({self.number}, 'x')")
        self.live.follow()

    def run_with(self, place, act, module=position):
        """Export, and do something when it gets to a place."""
        done: list[str] = []

        def reach(name):
            if name == place and not done:
                done.append(name)
                act()

        with self.monkeypatch.context() as patch:
            patch.setattr(module, "reach", reach)
            try:
                self.export.run()
            finally:
                assert done

    def assert_exact(self):
        self.export.run()
        found = [key["id"] for key, value, _ in self.export.records("app.plain") if value]
        assert found == list(range(1, self.number + 1))


@pytest.fixture
def case(live_of, topics, monkeypatch):
    live = live_of("pgoutput", TABLE)
    live.follow()
    case = Case(live, topics, monkeypatch)
    case.export.run()
    case.change()
    case.export.run()
    case.change()
    return case


def ends(topics, topic):
    """Return the end of a topic for those who read what is committed, and for the others."""
    found = []
    for level in ("read_committed", "read_uncommitted"):
        consumer = Consumer(
            {
                "bootstrap.servers": topics.broker.bootstrap,
                "group.id": "ends",
                "isolation.level": level,
            },
            logger=CLIENT_LOG,
        )
        found.append(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1])
        consumer.close()
    return found


@pytest.mark.soak
def test_broker_that_restarts_in_the_middle_loses_and_repeats_nothing(case, topics):
    def restart():
        topics.broker.stop()
        topics.broker.start()

    case.run_with("export.before_commit", restart)
    case.change()
    case.monkeypatch.setattr(kafka, "_TIMEOUT_S", 3.0)
    with pytest.raises(TargetUnavailable, match="cannot commit"):
        case.run_with("export.in_kafka_transaction", topics.broker.stop, kafka)
    topics.broker.start()
    case.monkeypatch.setattr(kafka, "_TIMEOUT_S", 60.0)
    case.assert_exact()


def test_topic_that_is_deleted_is_said_and_never_written_on(case, topics):
    topics.delete(case.topic)
    with pytest.raises(SpoolError, match=r"app\.plain was deleted") as caught:
        case.export.run()
    assert "--restart --snapshot" in (caught.value.hint or "")
    topics.make("app.plain")
    with pytest.raises(SpoolError, match=r"app\.plain was deleted .* and created again"):
        case.export.run()
    case.export.has_snapshot = True
    case.export.run(restart=True)
    assert sorted(key["id"] for key, *_ in case.export.records("app.plain")) == [1, 2]

    def create_again():
        topics.delete(case.topic)
        topics.make("app.plain")

    case.change()
    with pytest.raises(SpoolError, match=r"app\.plain was deleted"):
        case.run_with("export.before_prepare", create_again)
    assert case.export.records("app.plain") == []


def test_transaction_that_takes_too_long_is_written_once_by_the_next_run(case, topics):
    good = case.export.address
    case.export.address = KafkaAddress(
        good.bootstrap, good.prefix, 1, {"transaction.timeout.ms": "1000"}
    )

    def await_abort():
        end = time.monotonic() + 60
        while len(set(ends(topics, case.topic))) > 1:
            assert time.monotonic() < end
            time.sleep(0.1)

    with pytest.raises(AlreadyRunning, match="cannot commit") as caught:
        case.run_with("export.before_commit", await_abort)
    assert "transaction.timeout.ms" in (caught.value.hint or "")
    case.assert_exact()
    # More than the brokers allow.
    case.export.address = KafkaAddress(
        good.bootstrap, good.prefix, 1, {"transaction.timeout.ms": "900001"}
    )
    with pytest.raises(ConfigError, match="cannot begin") as refused:
        case.export.run()
    assert "transaction.max.timeout.ms" in (refused.value.hint or "")


def fence(topics):
    """Do what another export as the same consumer does as it starts."""
    name = f"{topics.prefix}.pgrepl-shop-kafka"
    Producer(
        {"bootstrap.servers": topics.broker.bootstrap, "transactional.id": name},
        logger=CLIENT_LOG,
    ).init_transactions(60)


def test_export_that_is_fenced_by_another_ends_and_nothing_is_twice(case, topics):
    with pytest.raises(AlreadyRunning, match="cannot commit"):
        case.run_with("export.before_commit", lambda: fence(topics))
    case.assert_exact()


def test_second_service_of_a_consumer_ends_at_once(case):
    with connect(case.live.config.target.endpoint, "test") as other:
        take_lock(other, export_lock("shop", "kafka"))
        with pytest.raises(AlreadyRunning):
            case.export.exporter().run(once=False)
    case.assert_exact()


def test_service_that_is_fenced_begins_again_where_the_topics_are(case, topics, monkeypatch):
    """It may have been itself, by a transaction that took too long: it looks what was committed."""
    fenced: list[str] = []

    def reach(name):
        if name == "export.before_commit" and not fenced:
            fenced.append(name)
            fence(topics)

    monkeypatch.setattr(position, "reach", reach)
    exporter = case.export.exporter()
    service = threading.Thread(target=exporter.run, kwargs={"once": False})
    service.start()
    wait_until(lambda: len(case.export.records("app.plain")) == case.number)
    exporter.stop()
    service.join()
    assert fenced
    case.assert_exact()


@pytest.mark.parametrize("kind", ["kafka", "files"])
def test_target_that_lost_the_position_is_not_followed(live_of, topics, tmp_path, kind):
    """As a standby is that is promoted and did not have it yet."""
    live = live_of("pgoutput", TABLE)
    live.follow()
    export = (
        KafkaExport(live, topics, has_schemas=False)
        if kind == "kafka"
        else FileExport(live, tmp_path / "out")
    )
    export.run()
    columns = "seq, lsn, memory, tables"
    for number in range(2):
        ((*values, memory, tables),) = live.target.rows(
            f"select {columns} from replication.consumer"
        )
        live.source.execute(f"insert into app.plain values ({number}, 'x')")
        live.follow()
        export.run()
    with live.target.connect() as connection:
        connection.execute(
            "update replication.consumer set seq = %s, lsn = %s, memory = %s, tables = %s",
            (*values, Jsonb(memory), Jsonb(tables)),
        )
    with pytest.raises(SpoolError, match=r"2 batches.*the target.*1$") as caught:
        export.run()
    assert "failover" in (caught.value.hint or "")
