"""The progress topic: one partition with the batch that was committed last."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from pgrepl.export.sinks.kafka_address import KafkaAddress

__all__ = ["Progress", "read_progress"]

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What a record of the topic says: which consumer, and how many batches it has committed."""

    id: str
    batch: int

    def dump(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return asdict(self)


def read_progress(address: KafkaAddress, topic: str) -> Progress | None:
    """Return the last record that is committed; None: there is none.

    Call it after ``init_transactions``: no transaction of an earlier run is open then.
    """
    end = _read_end(address, topic)
    consumer = _consumer(address, "read_committed")
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        return _read_to(consumer, end)
    finally:
        consumer.close()


def _read_to(consumer: Consumer, end: int) -> Progress | None:
    last: Progress | None = None
    until = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            last = Progress(**json.loads(message.value() or b"null"))
        elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  librdkafka's own code
            raise KafkaException(error)
        elif (message.offset() or 0) >= end:
            return last
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
        }
    )
