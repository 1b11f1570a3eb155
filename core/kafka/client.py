"""The way to a cluster: settings, what its topics are like, and what its errors mean."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from pgrepl.config.model import SourceConfig
from pgrepl.errors import SourceError, SourceUnavailable

__all__ = ["Cluster", "Topic", "Watermarks", "places_of", "told", "translate"]

_TIMEOUT_S = 20.0
_LIST_S = 2.0
#: What librdkafka itself logs goes here, with the settings' secrets in none of it.
_CLIENT_LOG = logging.getLogger("pgrepl.librdkafka")


@dataclass(frozen=True, slots=True)
class Topic:
    """What a topic is like."""

    name: str
    #: Another one after it was deleted and created again.
    incarnation: str
    partition_count: int
    #: ``delete``, ``compact``, or both.
    cleanup: frozenset[str]
    #: How long records are kept; None: for ever.
    retention_ms: int | None

    @property
    def is_compacted(self) -> bool:
        """Whether records go that have a later one of the same key."""
        return "compact" in self.cleanup


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The first offset that a partition still has, and the one after its last."""

    low: int
    high: int


class Cluster:
    """One source's view of a cluster."""

    def __init__(self, config: SourceConfig) -> None:
        """Connect to nothing yet."""
        self._config = config
        self.name = config.name
        #: Why the cluster lets nobody in, if it said so.
        self._refusal: str | None = None
        self._settings: dict[str, str | int | float | bool] = {
            **config.stream.client_settings(),
            "bootstrap.servers": config.stream.bootstrap,
        }
        #: For what is asked again and again.
        self._admin: AdminClient | None = None

    def make_consumer(self) -> Consumer:
        """Return a consumer that reads whole transactions from where it is told, and no other."""
        with told(self.name, "cannot read topics"):
            return Consumer(
                {
                    **self._settings,
                    # librdkafka wants one; nothing is ever committed to it.
                    "group.id": f"pgrepl-{self.name}",
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "error",
                    "enable.partition.eof": True,
                },
                logger=_CLIENT_LOG,
            )

    def read_topics(self, extra: Sequence[str] = ()) -> Mapping[str, Topic]:
        """Return the topics of the configuration, and those named here, as they are now."""
        with told(self.name, "cannot look at the topics"):
            settings: dict[str, Any] = {**self._settings, "error_cb": self._take_error}
            admin = AdminClient(settings, logger=_CLIENT_LOG)
            listed = self._list_topics(admin)
            names = sorted(
                name for name in listed if self._config.stream.matches(name) or name in extra
            )
            if not names:
                return {}
            futures = admin.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT_S)
            described = {name: future.result() for name, future in futures.items()}
            resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
            configs = {
                resource.name: future.result()
                for resource, future in admin.describe_configs(
                    resources, request_timeout=_TIMEOUT_S
                ).items()
            }
        return {
            name: Topic(
                name,
                str(described[name].topic_id),
                len(described[name].partitions),
                frozenset(configs[name]["cleanup.policy"].value.split(",")),
                _retention(configs[name]["retention.ms"].value),
            )
            for name in names
        }

    def read_incarnations(self, names: Collection[str]) -> Mapping[str, str]:
        """Return which topics of these names there are now; those that do not exist are missing."""
        if not names:
            return {}
        found = {}
        with told(self.name, "cannot look at the topics"):
            if self._admin is None:
                self._admin = AdminClient(self._settings, logger=_CLIENT_LOG)
            asked = TopicCollection(list(names))
            futures = self._admin.describe_topics(asked, request_timeout=_TIMEOUT_S)
            for name, future in futures.items():
                try:
                    found[name] = str(future.result().topic_id)
                except KafkaException as exc:
                    if exc.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
        return found

    def _list_topics(self, admin: AdminClient) -> Sequence[str]:
        """Ask for the names of all topics; who is refused does not wait for an answer."""
        until = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                return list(admin.list_topics(timeout=_LIST_S).topics)
            except KafkaException as exc:
                # Hands out what went wrong since.
                admin.poll(0)
                if self._refusal is not None:
                    raise SourceError(
                        f'source "{self.name}": the cluster refuses: {self._refusal}',
                        hint="Check user, password and certificates of librdkafka in pgrepl.toml.",
                    ) from exc
                if time.monotonic() > until:
                    raise

    def _take_error(self, error: KafkaError) -> None:
        """Keep what does not pass by itself; librdkafka itself only tries again."""
        if error.code() in _REFUSALS:
            self._refusal = error.str()

    def read_end(self) -> int:
        """Return the sum of the offsets at which all partitions end now."""
        extra = self._config.stream.transaction_topic
        topics = self.read_topics((extra,) if extra else ())
        consumer = self.make_consumer()
        try:
            marks = self.read_watermarks(consumer, places_of(topics))
        finally:
            consumer.close()
        return sum(own.high for own in marks.values())

    def read_watermarks(
        self, consumer: Consumer, places: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Watermarks]:
        """Return what partitions have."""
        found = {}
        with told(self.name, "cannot look at the partitions"):
            for topic, partition in places:
                low, high = consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=_TIMEOUT_S
                )
                found[topic, partition] = Watermarks(low, high)
        return found


def places_of(topics: Mapping[str, Topic]) -> Sequence[tuple[str, int]]:
    """Return the partitions of topics."""
    return [
        (topic.name, number) for topic in topics.values() for number in range(topic.partition_count)
    ]


def _retention(text: str) -> int | None:
    value = int(text)
    return None if value < 0 else value


@contextmanager
def told(source: str, what: str) -> Iterator[None]:
    """Raise librdkafka's errors as the source's."""
    try:
        yield
    except KafkaException as exc:
        error = exc.args[0] if exc.args else exc
        raise translate(source, what, error) from exc


def translate(source: str, what: str, error: object) -> SourceError:
    """Return the source's error for one of librdkafka's."""
    if not isinstance(error, KafkaError):
        return SourceError(f'source "{source}": {what}: {error}')
    reason = error.str()
    if error.code() in _PASSES or error.retriable():
        return SourceUnavailable(
            f'source "{source}": {what}: {reason}',
            hint="Do the brokers of bootstrap in pgrepl.toml run, and do they answer from here?",
        )
    return SourceError(
        f'source "{source}": {what}: {reason}',
        hint="Check bootstrap, topics and librdkafka in pgrepl.toml; pgrepl doctor says more.",
    )


_PASSES = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001  librdkafka's own codes have this form
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
_REFUSALS = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
