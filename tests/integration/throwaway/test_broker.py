"""Throwaway brokers: real ones, and gone without a trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from pgrepl.throwaway import Broker
from tests.support.streams.kafka import CLIENT_LOG, KAFKA_JARS
from tests.support.waiting import wait_until

_OWNER = """
import os, sys
from pathlib import Path
from pgrepl.throwaway import Broker
broker = Broker(jars=Path(sys.argv[1]))
print(broker.log.parent, flush=True)
os.kill(os.getpid(), 9)
"""


def read_all(broker: Broker, topic: str) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "test",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        },
        logger=CLIENT_LOG,
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found


@pytest.mark.soak
def test_broker_has_transactions_and_keeps_topics_over_a_crash(broker):
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "test"}, logger=CLIENT_LOG
    )
    producer.init_transactions(30)
    for value, ends in (
        (b"kept", producer.commit_transaction),
        (b"gone", producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.produce("crash", value)
        producer.flush(30)
        ends(30)
    broker.stop()
    broker.start()
    assert read_all(broker, "crash") == [b"kept"]


def test_owner_that_is_killed_leaves_no_broker_behind():
    done = subprocess.run(
        [sys.executable, "-c", _OWNER, str(KAFKA_JARS)], capture_output=True, text=True, check=False
    )
    folder = Path(done.stdout.strip())
    assert folder.name.startswith("pgrepl-kafka-")
    wait_until(lambda: not folder.exists())
    wait_until(lambda: subprocess.run(["pgrep", "-f", str(folder)], check=False).returncode == 1)
