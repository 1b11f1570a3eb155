"""A source that is topics or files: what must hold there, each failure with its remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.config.model import SourceConfig
from pgrepl.decoding.records.readers import make_reader
from pgrepl.decoding.records.registry import Registry
from pgrepl.doctor.finding import Area, Examination, Finding, Remedy, Status
from pgrepl.doctor.stream_samples import Sample, check_samples
from pgrepl.doctor.topic_growth import check_growth
from pgrepl.durations import write_duration
from pgrepl.errors import PgreplError
from pgrepl.terminal import counted

if TYPE_CHECKING:
    from pgrepl.kafka.client import Topic

__all__ = ["check_topics", "examine_stream"]

#: Records that are kept for less than this do not outlast a weekend.
_SHORT = timedelta(days=3)


def examine_stream(config: SourceConfig) -> Examination:
    """Examine a source of records; what does not answer is a finding, not an error."""
    findings = list(_folder(config) if config.kind == "files" else _cluster(config))
    if config.stream.registry:
        findings.append(_registry(config))
    return Examination(Area.SOURCE, config.name, tuple(findings))


def _cluster(config: SourceConfig) -> Iterator[Finding]:
    try:
        client = import_module("pgrepl.kafka.client")
        sampling = import_module("pgrepl.kafka.samples")
    except ModuleNotFoundError as exc:
        yield Finding(
            "package",
            Status.FAILURE,
            f"package {exc.name} is not installed",
            Remedy(shell=("here: pip install 'pgrepl[kafka]'",)),
        )
        return
    try:
        extra = config.stream.transaction_topic
        cluster = client.Cluster(config)
        topics = cluster.read_topics((extra,) if extra else ())
    except PgreplError as exc:
        yield _failure("reachable", exc)
        return
    yield Finding.ok("reachable", config.stream.bootstrap)
    yield from check_topics(config, topics)
    try:
        own = [topic for topic in topics.values() if topic.name != extra]
        newest, oldest = sampling.read_samples(cluster, own)
        samples = [Sample(record.topic, record.key, record.value) for record in newest]
        yield from check_samples(config, samples, make_reader(config))
        if not extra:
            counts = {topic.name: topic.partition_count for topic in own}
            yield from check_growth(counts, (record[:3] for record in (*oldest, *newest)))
    except PgreplError as exc:
        yield _failure("records", exc)


def check_topics(config: SourceConfig, topics: Mapping[str, Topic]) -> Iterator[Finding]:
    """Check what the topics are like. Pure."""
    stream = config.stream
    wanted = [pattern.text for pattern in stream.topics if not pattern.is_open]
    wanted += [stream.transaction_topic] if stream.transaction_topic else []
    missing = [name for name in wanted if name not in topics]
    if missing or not topics:
        shown = ", ".join(missing) or "none matches topics in pgrepl.toml"
        yield Finding(
            "topics",
            Status.FAILURE,
            f"topics that do not exist: {shown}",
            Remedy(then="make them, let what writes them run, or correct topics in pgrepl.toml"),
        )
    else:
        yield Finding.ok("topics", counted(len(topics), "topic"))
    ends = topics.get(stream.transaction_topic) if stream.transaction_topic else None
    if ends is not None and ends.partition_count > 1:
        yield Finding(
            "transaction-topic",
            Status.FAILURE,
            f"the transaction topic has {ends.partition_count} partitions, so that the order of"
            f" transactions is unknown: {ends.name}",
            Remedy(
                then="delete it, make it with one partition, and have Debezium begin with a new"
                " snapshot; or do without transaction_topic"
            ),
            (ends.name,),
        )
    yield from _cleanup(config, list(topics.values()))


def _cleanup(config: SourceConfig, topics: Sequence[Topic]) -> Iterator[Finding]:
    compacted = tuple(topic.name for topic in topics if topic.is_compacted)
    if config.stream.envelope == "debezium" and compacted:
        yield Finding(
            "compaction",
            Status.FAILURE,
            f'compacted topics lose events that envelope = "debezium" needs: {compacted[0]}',
            Remedy(
                shell=tuple(
                    "a machine with Kafka's programs: kafka-configs.sh --alter --entity-type topics"
                    f" --entity-name {name} --add-config cleanup.policy=delete"
                    for name in compacted
                ),
                then='or set envelope = "debezium-upsert" in pgrepl.toml',
            ),
            compacted,
        )
    short = tuple(
        topic.name
        for topic in topics
        if "delete" in topic.cleanup
        and topic.retention_ms is not None
        and timedelta(milliseconds=topic.retention_ms) < _SHORT
    )
    if short:
        yield Finding(
            "retention",
            Status.WARNING,
            f"records are deleted within {write_duration(_SHORT)}, received or not: {short[0]}",
            Remedy(then="raise retention.ms of these topics: what is deleted unread is refused"),
            short,
        )
    else:
        yield Finding.ok("retention", "records are kept for days")


def _folder(config: SourceConfig) -> Iterator[Finding]:
    path = Path(config.stream.path)
    if path.is_dir():
        yield Finding.ok("reachable", str(path))
    else:
        yield Finding(
            "reachable",
            Status.FAILURE,
            f"{path} is no folder",
            Remedy(then="make it, or correct path in pgrepl.toml"),
        )


def _registry(config: SourceConfig) -> Finding:
    registry = Registry(config.stream.registry, config.name)
    try:
        registry.check()
    except PgreplError as exc:
        return _failure("registry", exc)
    return Finding.ok("registry", registry.shown)


def _failure(check: str, error: PgreplError) -> Finding:
    return Finding(
        check, Status.FAILURE, error.message, Remedy(then=error.hint) if error.hint else None
    )
