"""Topics of Kafka as the destination: one transaction for each batch, its number in it.

A record of the progress topic is part of each transaction and names the batch. Whoever starts
first fences what may still be alive of the run before (``init_transactions``), then reads there
which batch was committed last, and to which topics: one that was deleted meanwhile is refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from pgrepl.config.naming import shown_name
from pgrepl.errors import AlreadyRunning, ConfigError, SpoolError, TargetError, TargetUnavailable
from pgrepl.export.envelopes.table_rows import CannotExportError
from pgrepl.export.record import Record, RecordWriter
from pgrepl.export.sinks.kafka_address import KafkaAddress
from pgrepl.export.sinks.kafka_progress import (
    Progress,
    ProgressRecord,
    TopicNote,
    read_progress,
)
from pgrepl.export.sinks.kafka_topics import ExportTopics
from pgrepl.export.tables import TableName
from pgrepl.failpoint import reach
from pgrepl.store.spool.consumers import Consumer

__all__ = ["KafkaSink"]

_CLIENT_LOG = logging.getLogger("pgrepl.librdkafka")
_TIMEOUT_S = 60.0
#: The most that brokers allow unless told otherwise; a snapshot is one transaction.
_TRANSACTION = "transaction.timeout.ms"
_TRANSACTION_MS = 900_000
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
#: librdkafka's word for the partition of the key.
_ANY = -1


class KafkaSink:
    """A cluster as the destination of an export."""

    def __init__(
        self,
        address: KafkaAddress,
        source: str,
        consumer: Consumer,
        writer: RecordWriter,
        *,
        is_restart: bool,
    ) -> None:
        """Connect to nothing yet; a restart may follow what an earlier consumer wrote."""
        self._is_restart = is_restart
        self._address = address
        self._consumer = consumer
        self._writer = writer
        name = _safe(f"pgrepl-{source}-{consumer.name}")
        self._progress_topic = f"{_safe(address.prefix)}.{name}"
        self._names: dict[TableName | None, str] = {}
        #: Topics of the batch in hand, and those whose ids are in the progress topic.
        self._written: set[str] = set()
        self._noted: set[str] = set()
        self._is_open = False
        settings = {_TRANSACTION: _TRANSACTION_MS, **address.client_settings()}
        with self._told("cannot connect"):
            self._topics = ExportTopics(
                address, AdminClient(address.client_settings(), logger=_CLIENT_LOG)
            )
            self._producer = Producer(
                {
                    **settings,
                    "transactional.id": f"{_safe(address.prefix)}.{name}",
                    "message.timeout.ms": settings[_TRANSACTION],
                    # As Java's clients do it, so that equal keys of all writers meet.
                    "partitioner": "murmur2_random",
                    "linger.ms": 20,
                },
                logger=_CLIENT_LOG,
            )

    @property
    def _id(self) -> str:
        return str(self._consumer.id)

    @property
    def is_empty(self) -> bool:
        """Whether the batch in hand has no record."""
        return not self._is_open

    def recover(self, prepared: Mapping[str, Any] | None, batch: int) -> bool:
        """Fence an earlier run, and tell whether what it had prepared was committed."""
        self._make_topic(self._progress_topic, 1, {"cleanup.policy": "compact"})
        with self._told("cannot begin"):
            self._producer.init_transactions(_TIMEOUT_S)
        with self._told("cannot read how far the export was"):
            written = read_progress(self._address, self._progress_topic)
        found = written.last
        if found is not None and found.id != self._id:
            self._replace(found)
            found = None
        committed = 0 if found is None else found.batch
        self._check_position(prepared, committed, batch)
        with self._told("cannot look at the topics"):
            self._topics.expect(written.topics_of(self._id))
        self._noted.update(written.topics_of(self._id))
        if self._consumer.options["envelope"] == "debezium":
            # Its readers refuse to begin without it, and a snapshot has no transaction.
            self._topic(None)
        return committed != batch

    def _check_position(
        self, prepared: Mapping[str, Any] | None, committed: int, batch: int
    ) -> None:
        """Refuse to go on where target and topics do not know of the same batches."""
        if prepared is not None and committed == batch + 1 == prepared["memory"]["batch"]:
            return
        if committed == batch:
            return
        reason = (
            "Did the target lose it, as by a failover or a restored backup?"
            if committed > batch
            else "Was the topic deleted, or is it another cluster?"
        )
        raise SpoolError(
            f"{self._address}: topic {self._progress_topic} says that {committed} batches were"
            f" written, the target that there were {batch}",
            hint=f"{reason} Start over with --restart --snapshot, and another prefix.",
        )

    def _replace(self, found: Progress) -> None:
        """Note in the progress topic that another consumer writes from here on."""
        if not self._is_restart:
            raise SpoolError(
                f"{self._address}: an earlier consumer wrote {found.batch} batches to these topics,"
                " and the target does not know it any more",
                hint="Was the source copied again? What it changed meanwhile is not in the topics:"
                " start over with --restart --snapshot.",
            )
        with self._told("cannot write"):
            self._producer.begin_transaction()
            self._is_open = True
            self.prepare(0)
            self._producer.commit_transaction(_TIMEOUT_S)
            self._is_open = False

    def write(self, record: Record) -> None:
        """Send a record as part of the transaction in hand."""
        topic = self._topic(record.name)
        with self._told(f"cannot write to topic {topic}"):
            if not self._is_open:
                self._producer.begin_transaction()
                self._is_open = True
            key = self._writer.key(record, topic)
            headers: dict[str, str | bytes | None] = {
                name: self._writer.header(record, own) for name, own in record.headers.items()
            }
            # What has no key keeps its order in one partition.
            place = _ANY if key is not None else 0
            value = self._writer.value(record, topic)
            self._produce(topic, key, value, list(headers.items()), place)
        self._written.add(topic)

    def prepare(self, batch: int) -> Mapping[str, Any]:
        """Have the brokers store the batch, and what tells that it was committed."""
        with self._told("cannot write"):
            for topic in sorted(self._written - self._noted):
                self._note(TopicNote(self._id, topic, self._topics.id_of(topic)).dump())
            self._note(Progress(self._id, batch).dump())
            left = self._producer.flush(_TIMEOUT_S)
            # Those that have taken the batch; what is deleted later the next batch finds.
            self._topics.check(self._written)
            if left:
                raise TargetUnavailable(f"{self._address}: the brokers did not take all records")
        return {}

    def _note(self, record: ProgressRecord) -> None:
        self._produce(self._progress_topic, record.key, record.value, [], 0)

    def commit(self) -> None:
        """Make the batch visible to those who read what is committed."""
        reach("export.in_kafka_transaction")
        with self._told("cannot commit"):
            self._producer.commit_transaction(_TIMEOUT_S)
        self._is_open = False
        self._noted |= self._written
        self._written.clear()

    def close(self) -> None:
        """Give up a transaction in hand."""
        if self._is_open:
            # Brokers would do it after a while, or the next run.
            with suppress(KafkaException):
                self._producer.abort_transaction(_TIMEOUT_S / 10)
        self._is_open = False

    def _produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, str | bytes | None]],
        partition: int,
    ) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=headers)
            except BufferError:
                self._producer.poll(1.0)
            else:
                self._producer.poll(0)
                return

    def _topic(self, name: TableName | None) -> str:
        topic = self._names.get(name)
        if topic is None:
            parts = ("transaction",) if name is None else name
            topic = _safe(".".join((self._address.prefix, *parts)))
            if topic in self._names.values() and name is not None:
                raise CannotExportError(
                    f"the topic of {shown_name(*name)}, {topic}, is another table's too",
                    hint="Rename one of them, or leave it out.",
                )
            self._make_topic(topic, 1 if name is None else self._address.partitions, {})
            self._names[name] = topic
        return topic

    def _make_topic(self, topic: str, partitions: int, config: dict[str, str]) -> None:
        with self._told(f"cannot make topic {topic}"):
            self._topics.make(topic, partitions, config)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Raise librdkafka's errors as ours."""
        try:
            yield
        except KafkaException as exc:
            error = exc.args[0] if exc.args else None
            message = f"{self._address}: {what}: {error.str() if error is not None else exc}"
            if error is not None and error.code() in _FENCED:
                raise AlreadyRunning(
                    message,
                    hint="Another export as the same consumer runs, or the transaction took longer"
                    f" than {_TRANSACTION} in the file of --kafka-settings allows; nothing was"
                    " lost, and the next run goes on where this one was.",
                ) from exc
            if error is not None and error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                raise ConfigError(
                    message,
                    hint=f"The brokers allow less (transaction.max.timeout.ms): set {_TRANSACTION}"
                    " in the file of --kafka-settings, and export in smaller steps.",
                ) from exc
            if error is not None and (error.retriable() or error.txn_requires_abort()):
                raise TargetUnavailable(message, hint="Do the brokers answer?") from exc
            if error is not None and error.code() in _PASSES:
                raise TargetUnavailable(message, hint="Do the brokers answer?") from exc
            raise TargetError(
                message, hint="Check --to and --kafka-settings, and what the user may do there."
            ) from exc


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)


_FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001  librdkafka's own codes have this form
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
_PASSES = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
    }
)
