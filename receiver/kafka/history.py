"""Records of topics that were received, read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, KafkaError, TopicPartition

from pgrepl.kafka.client import Cluster, Watermarks, told, translate
from pgrepl.receiver.kafka.stream import place_of, record_of
from pgrepl.receiver.streams.record import Place, Record
from pgrepl.store.streams import Partition

__all__ = ["KafkaHistory"]

_AT_ONCE = 1000
_WAIT_S = 1.0


class KafkaHistory:
    """Reads partitions up to where the target is."""

    def __init__(self, cluster: Cluster, consumer: Consumer, known: Sequence[Partition]) -> None:
        """Take what says where the target is."""
        self._cluster = cluster
        self._consumer = consumer
        self._ends = {(own.topic, own.partition): own.next_offset for own in known}
        self._marks: dict[Place, Watermarks] = {}

    def has(self, place: Place, offset: int) -> bool:
        """Whether a partition still has what was at an offset."""
        return place in self._ends and self._mark(place).low <= offset

    def read(self, place: Place, first: int) -> Iterator[Record]:
        """Return records of a partition from an offset on, then those of others of its topic."""
        others = [own for own in self._ends if own[0] == place[0] and own != place]
        for own in (place, *others):
            low = self._mark(own).low
            yield from self._read(own, max(low, first) if own == place else low)

    def read_all(self, place: Place) -> Iterator[Record]:
        """Return all records of a partition that are kept, up to where the target is."""
        yield from self._read(place, self._mark(place).low)

    def _mark(self, place: Place) -> Watermarks:
        if place not in self._marks:
            self._marks.update(self._cluster.read_watermarks(self._consumer, [place]))
        return self._marks[place]

    def _read(self, place: Place, first: int) -> Iterator[Record]:
        end = self._ends[place]
        if first >= end:
            return
        source = self._cluster.name
        with told(source, "cannot read records"):
            self._consumer.assign([TopicPartition(*place, first)])
        while True:
            with told(source, "cannot read records"):
                messages = self._consumer.consume(_AT_ONCE, timeout=_WAIT_S)
            for message in messages:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    return
                if error is not None:
                    raise translate(source, "cannot read records", error)
                record = record_of(message)
                if place_of(message) != place or record.offset >= end:
                    return
                yield record
