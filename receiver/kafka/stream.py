"""The loop that reads records and hands batches to the writer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from pgrepl.config.naming import shown_name
from pgrepl.errors import TargetError
from pgrepl.kafka.client import told, translate
from pgrepl.position import Position
from pgrepl.receiver.kafka.start_check import deleted
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_writer import SpoolWriter
from pgrepl.receiver.streams.handing import Handing, StoppedInside
from pgrepl.receiver.streams.intake import Intake
from pgrepl.receiver.streams.layouts import TableMissingError
from pgrepl.receiver.streams.record import Place, Record
from pgrepl.store.streams import Partition

__all__ = ["KafkaStream", "place_of", "record_of"]

logger = logging.getLogger(__name__)

_AT_ONCE = 1000
_WAIT_S = 0.05
#: How often topics that wait for a table are tried again, and new topics are looked for.
_RETRY_S = 5.0
_LOOK_S = 30.0
#: A record that waits for its other half is let go when nothing came for this time.
_SETTLE_S = 1.0
#: The end of the year 9999: whoever writes a record says its time, and may say anything.
_LAST_MS = 253_402_300_799_999


class KafkaStream:
    """An open source."""

    def __init__(
        self,
        consumer: Consumer,
        intake: Intake,
        source: str,
        surroundings: Surroundings,
        *,
        ends: Mapping[Place, int] | None,
        find_new: Callable[[], Sequence[Partition]],
        check: Callable[[Collection[str]], None],
    ) -> None:
        """Read from where the intake is; ``find_new`` looks for partitions added since.

        ``check`` refuses topics that were deleted while they were read.
        """
        self._consumer = consumer
        self._intake = intake
        self._source = source
        self._surroundings = surroundings
        self._settings = surroundings.settings
        self._wakeup = surroundings.wakeup
        self._ends = ends
        self._find_new = find_new
        self._check = check
        #: Partitions that were read to their end at least once.
        self._ended: set[Place] = set()
        #: Partitions whose table a person has to make, and the error that says so.
        self._held: dict[Place, TargetError] = {}
        #: Partitions that are not read on because others have to follow first.
        self._full: set[Place] = set()
        self._first_at: float | None = None
        self._quiet_since = time.monotonic()

    @property
    def start(self) -> Position:
        """Everything before it is in the spool already."""
        return self._intake.position

    def run(self, writer: SpoolWriter) -> None:
        """Read until told to stop, or until the ends that were asked for."""
        handing = Handing(writer, self._surroundings)
        self._intake.attach(handing.put_part)
        with suppress(StoppedInside):
            self._run(writer, handing)

    def _run(self, writer: SpoolWriter, handing: Handing) -> None:
        looked_at = retried_at = moved_at = time.monotonic()
        while not self._wakeup.is_stopping:
            handing.check()
            if handing.is_full:
                self._wakeup.wait(_WAIT_S)
                continue
            self._read()
            self._balance()
            now = time.monotonic()
            if self._is_due(now):
                self._put(writer)
                self._first_at, moved_at = None, now
            if self._is_over():
                break
            if now - retried_at > _RETRY_S:
                self._try_held()
                retried_at = now
            if now - moved_at > self._settings.idle_position_s and self._intake.has_moved:
                self._put(writer)
                moved_at = now
            if self._ends is None and now - looked_at > _LOOK_S and writer.is_idle:
                looked_at = now
                self._add(self._find_new())
        self._intake.settle()
        if self._intake.has_moved or self._intake.has_changes:
            self._put(writer)
        handing.finish()
        if self._held and not self._wakeup.is_stopping:
            raise next(iter(self._held.values()))

    def _put(self, writer: SpoolWriter) -> None:
        """Have a batch written, all of whose records are of the topics that were opened."""
        batch = self._intake.batch()
        self._check({move.topic for move in batch.offsets})
        writer.put(batch)

    def _add(self, partitions: Sequence[Partition]) -> None:
        for own in partitions:
            logger.info(
                "a partition was added", extra={"topic": own.topic, "number": own.partition}
            )
            self._intake.add(own)
        if partitions:
            self.assign()

    def assign(self) -> None:
        """Have the consumer read every partition from where the intake is."""
        places = self._intake.places
        self._held.clear()
        self._full.clear()
        with told(self._source, "cannot read records"):
            self._consumer.assign(
                [TopicPartition(*place, self._intake.next_offset(place)) for place in places]
            )

    def _read(self) -> None:
        with told(self._source, "cannot read records"):
            messages = self._consumer.consume(_AT_ONCE, timeout=_WAIT_S)
        count = 0
        for message in messages:
            error = message.error()
            if error is not None:
                self._take_error(error, message)
            else:
                self._take(record_of(message))
                count += 1
        if count:
            self._quiet_since = time.monotonic()
            if self._first_at is None:
                self._first_at = self._quiet_since
        elif time.monotonic() - self._quiet_since > _SETTLE_S:
            self._intake.settle()

    def _balance(self) -> None:
        """Read no further where much waits for other partitions, until it does not."""
        full = {place for place in self._intake.places if self._intake.is_full(place)}
        if full == self._full:
            return
        with told(self._source, "cannot read records"):
            self._consumer.pause([TopicPartition(*place) for place in full - self._full])
            self._consumer.resume([TopicPartition(*place) for place in self._full - full])
        self._full = full

    def _take(self, record: Record) -> None:
        place = record.place
        if place in self._held:
            return
        if record.offset < self._intake.next_offset(place):
            # Read before librdkafka was told to go back: a record is never taken twice.
            return
        try:
            self._intake.take(record)
        except TableMissingError as missing:
            self._hold(place, missing)

    def _take_error(self, error: KafkaError, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001  librdkafka's own codes
            place = place_of(message)
            self._ended.add(place)
            offset = message.offset()
            if place not in self._held and offset is not None:
                self._intake.pass_to(place, offset)
            return
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001
            place = place_of(message)
            raise deleted(self._source, place, self._intake.next_offset(place))
        raise translate(self._source, "cannot read records", error)

    def _is_due(self, now: float) -> bool:
        if not self._intake.has_changes or self._first_at is None:
            return self._intake.has_changes
        return (
            self._intake.byte_count >= self._settings.segment_bytes
            or now - self._first_at >= self._settings.gather_s
        )

    def _is_over(self) -> bool:
        if self._ends is None:
            return False
        return all(
            place in self._ended or place in self._held or self._intake.next_offset(place) >= end
            for place, end in self._ends.items()
        )

    def _hold(self, place: Place, missing: TableMissingError) -> None:
        """Leave a partition where it is until a person has made its table; others go on."""
        topic, partition = place
        error = TargetError(
            f'source "{self._source}": topic "{topic}" has records without a schema, and the target'
            f" has no table {shown_name(*missing.name)} for them",
            hint="Make the table in the target's schema of the source, with a primary key; its"
            " types say what the values mean. See docs/kafka.md.",
        )
        if not any(held[0] == topic for held in self._held):
            logger.error(error.message, extra={"hint": error.hint})
        self._held[place] = error
        with told(self._source, "cannot read records"):
            self._consumer.pause([TopicPartition(topic, partition)])

    def _try_held(self) -> None:
        held, self._held = self._held, {}
        for topic, partition in held:
            offset = self._intake.next_offset((topic, partition))
            with told(self._source, "cannot read records"):
                self._consumer.seek(TopicPartition(topic, partition, offset))
                self._consumer.resume([TopicPartition(topic, partition)])


def place_of(message: Message) -> Place:
    """Return the partition that a message of librdkafka's is of."""
    topic, partition = message.topic(), message.partition()
    if topic is None or partition is None:
        raise AssertionError("a record is in a partition of a topic")
    return topic, partition


def record_of(message: Message) -> Record:
    """Return a message of librdkafka's as a record."""
    offset = message.offset()
    if offset is None:
        raise AssertionError("a record has an offset")
    _, at_ms = message.timestamp()
    if not 0 <= at_ms <= _LAST_MS:
        at_ms = min(max(at_ms, 0), _LAST_MS)
    place, key, value = place_of(message), message.key(), message.value()
    headers = message.headers()
    if not headers:
        return Record(place, offset, offset + 1, key, value, 1000 * at_ms)
    pairs = headers.items() if isinstance(headers, dict) else headers
    kept = {name: own for name, own in pairs if isinstance(own, bytes)}
    return Record(place, offset, offset + 1, key, value, 1000 * at_ms, kept)
