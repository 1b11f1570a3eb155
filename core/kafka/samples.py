"""Some records of topics, for whoever wants to know what they are like."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from pgrepl.kafka.client import Cluster, Topic, Watermarks, places_of, told

__all__ = ["SampledRecord", "read_samples"]

_TIMEOUT_S = 20.0
_POLL_S = 2.0
#: The number of records of each partition, and of partitions, that are looked at.
_SAMPLED_RECORDS, _SAMPLED_PARTITIONS = 5, 100

_Place = tuple[str, int]


class SampledRecord(NamedTuple):
    """A record of a topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None


def read_samples(
    cluster: Cluster, topics: Sequence[Topic]
) -> tuple[Sequence[SampledRecord], Sequence[SampledRecord]]:
    """Return the newest records of partitions, and of topics with several the oldest ones."""
    consumer = cluster.make_consumer()
    try:
        marks = cluster.read_watermarks(consumer, places_of({own.name: own for own in topics}))
        filled = [(place, own) for place, own in marks.items() if own.high > own.low]
        chosen = dict(filled[:_SAMPLED_PARTITIONS])
        several = {own.name for own in topics if own.partition_count > 1}
        newest = _read(cluster, consumer, {place: _last(own) for place, own in chosen.items()})
        oldest = _read(
            cluster,
            consumer,
            {place: own.low for place, own in chosen.items() if place[0] in several},
        )
    finally:
        consumer.close()
    return newest, oldest


def _last(marks: Watermarks) -> int:
    return max(marks.low, marks.high - _SAMPLED_RECORDS)


def _read(
    cluster: Cluster, consumer: Consumer, starts: Mapping[_Place, int]
) -> Sequence[SampledRecord]:
    """Return a few records of each partition, from an offset on."""
    found: list[SampledRecord] = []
    if not starts:
        return found
    counts: Counter[_Place] = Counter()
    left = set(starts)
    with told(cluster.name, "cannot read records"):
        consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
        until = time.monotonic() + _TIMEOUT_S
        while left and time.monotonic() < until:
            for message in consumer.consume(_SAMPLED_RECORDS, timeout=_POLL_S):
                error = message.error()
                place = message.topic() or "", message.partition() or 0
                if error is None and place in left:
                    found.append(SampledRecord(*place, message.key(), message.value()))
                    counts[place] += 1
                is_end = error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001
                if is_end or counts[place] >= _SAMPLED_RECORDS:
                    left.discard(place)
    return found
