"""The topics of an export: made where there are none, and told from others of the same name."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from pgrepl.errors import SpoolError, TargetUnavailable
from pgrepl.export.sinks.kafka_address import KafkaAddress

__all__ = ["ExportTopics"]

_TIMEOUT_S = 60.0
_POLL_S = 0.05


class ExportTopics:
    """Topics of a cluster; librdkafka's errors are the caller's to translate."""

    def __init__(self, address: KafkaAddress, admin: AdminClient) -> None:
        """Ask for nothing yet."""
        self._address = address
        self._admin = admin
        #: A topic that was deleted and created again has another id.
        self._ids: dict[str, str] = {}

    def make(self, topic: str, partitions: int, config: dict[str, str]) -> None:
        """Make a topic unless it exists."""
        if topic in self._ids:
            return
        new = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=config)
        for future in self._admin.create_topics([new], request_timeout=_TIMEOUT_S).values():
            try:
                future.result()
            except KafkaException as exc:
                if exc.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
        self._ids[topic] = self._await(topic)

    def id_of(self, topic: str) -> str:
        """Return the id of a topic that was made, or expected."""
        return self._ids[topic]

    def expect(self, ids: Mapping[str, str]) -> None:
        """Take these to be the topics that were written to before.

        Raises
        ------
        SpoolError
            when one of them is another, or does not exist.

        """
        self._ids.update(ids)
        self.check(ids)

    def check(self, topics: Collection[str]) -> None:
        """See that topics are those that were made, or expected.

        Raises
        ------
        SpoolError
            when one is another, or does not exist any more.

        """
        found = self._read_ids(topics)
        for topic in topics:
            if found.get(topic) != self._ids[topic]:
                raise SpoolError(
                    f"{self._address}: topic {topic} was deleted since it was written to"
                    f"{', and created again' if topic in found else ''}: what it had is lost",
                    hint="Start over with --restart --snapshot: the rows of all tables of this"
                    " export are then written again.",
                )

    def _await(self, topic: str) -> str:
        """Wait until the brokers know a topic that was just made; return its id."""
        until = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < until:
            listed = self._admin.list_topics(topic, timeout=_TIMEOUT_S).topics.get(topic)
            if listed is not None and listed.error is None and listed.partitions:
                found = self._read_ids([topic])
                if topic in found:
                    return found[topic]
            time.sleep(_POLL_S)
        raise TargetUnavailable(f"{self._address}: topic {topic} was made, and is not there")

    def _read_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the ids of those that exist."""
        if not topics:
            return {}
        asked = TopicCollection(list(topics))
        found = {}
        futures = self._admin.describe_topics(asked, request_timeout=_TIMEOUT_S)
        for topic, future in futures.items():
            try:
                found[topic] = str(future.result().topic_id)
            except KafkaException as exc:
                if exc.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
        return found
