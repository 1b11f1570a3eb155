"""A source that is topics: opened where the target says, and checked for what is missing."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager

from pgrepl.config.model import SourceConfig
from pgrepl.kafka.client import Cluster, Topic, places_of
from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.receiver.kafka.history import KafkaHistory
from pgrepl.receiver.kafka.start_check import (
    check_incarnations,
    check_known,
    check_still_there,
    check_topics,
    new_partitions,
)
from pgrepl.receiver.kafka.stream import KafkaStream
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.receiver.streams.envelopes.envelope import EnvelopeReader
from pgrepl.receiver.streams.envelopes.make import make_envelope
from pgrepl.receiver.streams.intake import Intake
from pgrepl.receiver.streams.record import Place, Record
from pgrepl.receiver.streams.retry import Past
from pgrepl.store.streams import Partition

__all__ = ["KafkaSource"]

logger = logging.getLogger(__name__)


class KafkaSource:
    """Reads topics into the spool."""

    def __init__(self, config: SourceConfig, surroundings: Surroundings) -> None:
        """Connect to nothing yet."""
        self._config = config
        self._surroundings = surroundings
        #: Up to where ``--once`` goes, by partition.
        self._ends: Mapping[Place, int] | None = None

    def mark_end(self) -> Position:
        """Return a position that no record lies after which is there now."""
        cluster = Cluster(self._config)
        topics = self._read_topics(cluster)
        consumer = cluster.make_consumer()
        try:
            found = cluster.read_watermarks(consumer, places_of(topics))
        finally:
            consumer.close()
        self._ends = {place: marks.high for place, marks in found.items()}
        return Lsn(sum(self._ends.values()))

    def close(self) -> None:
        """Keep nothing: each call connects by itself."""

    @contextmanager
    def open(self, spool: SpoolSession, stop: Position | None) -> Iterator[KafkaStream]:
        """Connect, and check that nothing is missing."""
        cluster = Cluster(self._config)
        with ExitStack() as stack:
            consumer = stack.enter_context(closing(cluster.make_consumer()))
            known = spool.read_partitions()

            def read_again(place: Place) -> Iterator[Record]:
                waiting = envelope.first_waiting(place)
                end = intake.next_offset(place) if waiting is None else waiting
                own = Partition(*place, incarnations[place[0]], end, {})
                with closing(cluster.make_consumer()) as again:
                    yield from KafkaHistory(cluster, again, [own]).read_all(place)

            envelope = stack.enter_context(
                closing(make_envelope(self._config, spool, read_again=read_again))
            )
            spool.set_format(envelope.format, "UTF8")
            counts: dict[str, int] = {}
            incarnations: dict[str, str] = {}

            def check(names: Collection[str]) -> None:
                now = cluster.read_incarnations(names)
                check_still_there(cluster.name, {name: incarnations[name] for name in names}, now)

            def find(known: Sequence[Partition]) -> Sequence[Partition]:
                topics = self._read_topics(cluster)
                check_topics(self._config, topics)
                marks = cluster.read_watermarks(consumer, places_of(topics))
                check_known(self._config, known, topics, marks)
                fresh = list(new_partitions(self._config, known, topics, marks))
                self._tell_grown(known, fresh)
                spool.add_partitions(fresh)
                counts.update((topic.name, topic.partition_count) for topic in topics.values())
                incarnations.update((topic.name, topic.incarnation) for topic in topics.values())
                for own in fresh:
                    envelope.restore((own.topic, own.partition), own.state, counts[own.topic])
                return fresh

            fresh = find(known)
            for own in known:
                envelope.restore((own.topic, own.partition), own.state, counts[own.topic])
            intake = self._make_intake(spool, envelope, [*known, *fresh])
            stream = KafkaStream(
                consumer,
                intake,
                self._config.name,
                self._surroundings,
                ends=None if stop is None else self._ends,
                find_new=lambda: find(spool.read_partitions()),
                check=check,
            )
            stream.assign()
            yield stream

    @contextmanager
    def reopen(self, spool: SpoolSession) -> Iterator[Past]:
        """Open what was received, to read it again."""
        cluster = Cluster(self._config)
        consumer = cluster.make_consumer()
        try:
            known = spool.read_partitions()
            topics = self._read_topics(cluster)
            check_incarnations(self._config, known, topics)
            envelope = make_envelope(self._config, spool)
            spool.set_format(envelope.format, "UTF8")
            for own in known:
                count = topics[own.topic].partition_count
                envelope.restore((own.topic, own.partition), own.state, count)
            intake = self._make_intake(spool, envelope, known)
            yield Past(envelope, intake, KafkaHistory(cluster, consumer, known))
        finally:
            consumer.close()

    def _tell_grown(self, known: Sequence[Partition], fresh: Sequence[Partition]) -> None:
        """Say of which topics the keys are in other partitions than before."""
        if self._config.stream.transaction_topic:
            return
        for topic in sorted({own.topic for own in known} & {own.topic for own in fresh}):
            logger.warning(
                'source "%s": topic "%s" has more partitions than before: records of one key that'
                " are in two of them have no order, and an older value may win",
                self._config.name,
                topic,
                extra={"hint": "See docs/kafka.md, and compare the rows with their source."},
            )

    def _make_intake(
        self, spool: SpoolSession, envelope: EnvelopeReader, partitions: Sequence[Partition]
    ) -> Intake:
        return Intake(
            spool,
            envelope,
            partitions,
            on_error=self._surroundings.on_error,
            limit_bytes=self._surroundings.settings.segment_bytes,
        )

    def _read_topics(self, cluster: Cluster) -> Mapping[str, Topic]:
        extra = self._config.stream.transaction_topic
        return cluster.read_topics((extra,) if extra else ())
