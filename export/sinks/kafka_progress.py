"""The progress topic: one partition with the batch that was committed last, and what it is of."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from pgrepl.export.sinks.json_records import to_json
from pgrepl.export.sinks.kafka_address import KafkaAddress

__all__ = ["Progress", "ProgressRecord", "TopicNote", "WrittenProgress", "read_progress"]

#: Without it librdkafka writes to the terminal.
_CLIENT_LOG = logging.getLogger("pgrepl.librdkafka")

_TIMEOUT_S = 60.0
_BATCH = b"progress"
_TOPIC = b"topic "


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """A record of the topic; of each key the last one is kept."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Progress:
    """Which consumer, and how many batches it has committed."""

    id: str
    batch: int

    def dump(self) -> ProgressRecord:
        """Return it as the topic has it."""
        return ProgressRecord(_BATCH, to_json(asdict(self)).encode())


@dataclass(frozen=True, slots=True)
class TopicNote:
    """That a consumer writes to a topic, and which of those that had its name it is."""

    id: str
    topic: str
    topic_id: str

    def dump(self) -> ProgressRecord:
        """Return it as the topic has it."""
        return ProgressRecord(_TOPIC + self.topic.encode(), to_json(asdict(self)).encode())


@dataclass(slots=True)
class WrittenProgress:
    """What the topic says."""

    #: None: nobody has committed a batch.
    last: Progress | None = None
    #: The ids of topics, by the id of the consumer that wrote to them.
    topics: dict[str, dict[str, str]] = field(default_factory=dict)

    def topics_of(self, consumer: str) -> Mapping[str, str]:
        """Return the topics that a consumer wrote to."""
        return self.topics.get(consumer, {})

    def take(self, message: Message) -> None:
        """Take the next record."""
        value = json.loads(message.value() or b"null")
        if (message.key() or b"").startswith(_TOPIC):
            note = TopicNote(**value)
            self.topics.setdefault(note.id, {})[note.topic] = note.topic_id
        else:
            self.last = Progress(**value)


def read_progress(address: KafkaAddress, topic: str) -> WrittenProgress:
    """Return what is committed.

    Call it after ``init_transactions``: no transaction of an earlier run is open then.
    """
    end = _read_end(address, topic)
    consumer = _consumer(address, "read_committed")
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        return _read_to(consumer, end)
    finally:
        consumer.close()


def _read_to(consumer: Consumer, end: int) -> WrittenProgress:
    found = WrittenProgress()
    until = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.take(message)
        elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  librdkafka's own code
            raise KafkaException(error)
        elif (message.offset() or 0) >= end:
            return found
        # Else a transaction is still being ended: what follows it shows then.
    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001


def _read_end(address: KafkaAddress, topic: str) -> int:
    """Return the end of the topic, committed or not."""
    consumer = _consumer(address, "read_uncommitted")
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_TIMEOUT_S)
    finally:
        consumer.close()
    return int(end)


def _consumer(address: KafkaAddress, isolation: str) -> Consumer:
    return Consumer(
        {
            **address.client_settings(),
            # librdkafka wants one; nothing is ever committed to it.
            "group.id": "pgrepl-export",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        },
        logger=_CLIENT_LOG,
    )
