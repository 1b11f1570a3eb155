"""The newest records of topics: whether they have what their envelope needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pgrepl.config.model import SourceConfig
from pgrepl.decoding.debezium.event import Event, read_event
from pgrepl.decoding.records.losses import find_losses
from pgrepl.decoding.records.serialized import Reader
from pgrepl.decoding.records.values import UNFORESEEN, why_unreadable
from pgrepl.doctor.finding import Finding, Remedy, Status
from pgrepl.terminal import counted

__all__ = ["Sample", "check_samples"]


@dataclass(frozen=True, slots=True)
class Sample:
    """A record of a topic."""

    topic: str
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class _Seen:
    """What is wrong, and with which topics, in the order in which it was found."""

    topics: dict[str, list[str]] = field(default_factory=dict)
    #: An example of why a record cannot be read.
    reason: str = ""
    #: What is lost of columns, by topic and column.
    losses: dict[tuple[str, str], str] = field(default_factory=dict)

    def note(self, what: str, topic: str) -> None:
        own = self.topics.setdefault(what, [])
        if topic not in own:
            own.append(topic)


def check_samples(
    config: SourceConfig, samples: Sequence[Sample], reader: Reader
) -> Iterator[Finding]:
    """Check records, as the receiver would read them."""
    seen = _Seen()
    for sample in samples:
        if sample.value is not None:
            _look(config, sample, reader, seen)
    if not seen.topics:
        shown = "the newest records have what they need" if samples else "there is no record yet"
        yield Finding.ok("records", shown)
    for what, topics in seen.topics.items():
        yield _FINDINGS[what](topics, seen)
    yield from _losses(seen)


def _losses(seen: _Seen) -> Iterator[Finding]:
    """Tell what is lost of columns: those that lose the same together."""
    by_loss: dict[str, list[str]] = {}
    for (topic, column), loss in seen.losses.items():
        by_loss.setdefault(loss, []).append(f"{topic}: {column}")
    for loss, columns in by_loss.items():
        what, _, remedy = loss.partition(": ")
        shown = f"{what}, in {counted(len(columns), 'column')}: {columns[0]}"
        yield Finding("inexact-columns", Status.WARNING, shown, Remedy(then=remedy), tuple(columns))


def _look(config: SourceConfig, sample: Sample, reader: Reader, seen: _Seen) -> None:
    stream = config.stream
    try:
        key = None if sample.key is None else reader.read(sample.key).value
        value, schema = reader.read(sample.value or b"")
        event = None if stream.envelope == "upsert" or value is None else read_event(value)
    except UNFORESEEN as exc:
        seen.reason = seen.reason or why_unreadable(exc)
        seen.note("unreadable", sample.topic)
        return
    if key is None and stream.envelope != "debezium":
        seen.note("key", sample.topic)
    if schema is None and value is not None:
        seen.note("schema", sample.topic)
    elif schema is not None and event is not None:
        row = schema.part("after") or schema.part("before")
        for column, loss in find_losses(row) if row is not None else ():
            seen.losses[sample.topic, column] = loss
    if event is not None and stream.envelope == "debezium":
        _look_at_event(event, sample.topic, seen, has_key=key is not None)
        if stream.transaction_topic and not event.has_lasting_order:
            seen.note("version", sample.topic)


def _look_at_event(event: Event, topic: str, seen: _Seen, *, has_key: bool) -> None:
    if event.op in ("u", "d") and not has_key and event.before is None:
        seen.note("before", topic)
    if event.op in ("c", "u", "d") and event.order is None and not event.is_snapshot:
        seen.note("transaction", topic)


def _finding(
    check: str, status: Status, message: str, then: str, *, has_reason: bool = False
) -> Callable[[Sequence[str], _Seen], Finding]:
    def make(topics: Sequence[str], seen: _Seen) -> Finding:
        shown = f"{message}: {topics[0]}" + (f": {seen.reason}" if has_reason else "")
        return Finding(check, status, shown, Remedy(then=then), tuple(topics))

    return make


_FINDINGS: Mapping[str, Callable[[Sequence[str], _Seen], Finding]] = {
    "unreadable": _finding(
        "records",
        Status.FAILURE,
        "records cannot be read",
        "correct format, envelope or registry in pgrepl.toml; such records are parked",
        has_reason=True,
    ),
    "key": _finding(
        "record-key",
        Status.FAILURE,
        "records have no key, so that no row can be told from another",
        "give the table a primary key, or set Debezium's message.key.columns; events of tables"
        ' without one need envelope = "debezium"',
    ),
    "before": _finding(
        "before-image",
        Status.FAILURE,
        "events of a table without a key have no row before the change",
        "on Debezium's database: ALTER TABLE … REPLICA IDENTITY FULL",
    ),
    "version": _finding(
        "debezium",
        Status.FAILURE,
        "transaction_topic needs Debezium 3.6.1 or newer",
        "upgrade Debezium, or do without transaction_topic",
    ),
    "transaction": _finding(
        "transaction-metadata",
        Status.WARNING,
        "events do not say their transaction",
        "set Debezium's provide.transaction.metadata=true: without it a restart of Debezium between"
        " rows of one COPY cannot be told",
    ),
    "schema": _finding(
        "record-schema",
        Status.WARNING,
        "records have no schema, so that their tables are not made by pgrepl",
        "make the tables first, or set schemas.enable=true of the converter; see docs/kafka.md",
    ),
}
