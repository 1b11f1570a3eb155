"""Whether topics still have all that follows what is received: what is missing is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pgrepl.config.model import SourceConfig
from pgrepl.config.streams import StreamConfig
from pgrepl.errors import SourceError
from pgrepl.kafka.client import Topic, Watermarks
from pgrepl.receiver.streams.record import Place
from pgrepl.store.streams import Partition
from pgrepl.terminal import command

__all__ = [
    "check_incarnations",
    "check_known",
    "check_still_there",
    "check_topics",
    "deleted",
    "new_partitions",
]


def check_topics(config: SourceConfig, topics: Mapping[str, Topic]) -> None:
    """Refuse topics that cannot be what the envelope needs."""
    stream = config.stream
    names = [pattern.text for pattern in stream.topics if not pattern.is_open]
    if stream.transaction_topic:
        names.append(stream.transaction_topic)
    for name in names:
        if name not in topics:
            raise SourceError(
                f'source "{config.name}": topic "{name}" does not exist',
                hint="Make it, or correct topics in pgrepl.toml.",
            )
    for topic in topics.values():
        if topic.is_compacted and stream.envelope == "debezium":
            raise SourceError(
                f'source "{config.name}": topic "{topic.name}" is compacted, which removes events'
                ' that envelope = "debezium" needs',
                hint='Set its cleanup.policy to delete, or use envelope = "debezium-upsert".',
            )


def check_known(
    config: SourceConfig,
    partitions: Sequence[Partition],
    topics: Mapping[str, Topic],
    watermarks: Mapping[Place, Watermarks],
) -> None:
    """Refuse to go on where records are missing between what is received and what is there."""
    check_incarnations(config, partitions, topics)
    for known in partitions:
        found = watermarks[known.topic, known.partition]
        if found.low > known.next_offset:
            raise deleted(config.name, (known.topic, known.partition), known.next_offset)
        if found.high < known.next_offset:
            raise SourceError(
                f'source "{config.name}": partition {known.partition} of topic "{known.topic}" ends'
                f" at offset {found.high}, and is received up to {known.next_offset}",
                hint="The cluster lost records. To begin with what is there now:"
                f" {command('drop', config.name)}",
            )


def check_incarnations(
    config: SourceConfig, partitions: Sequence[Partition], topics: Mapping[str, Topic]
) -> None:
    """Refuse topics that are missing, or others than those that were received."""
    for known in partitions:
        topic = topics.get(known.topic)
        if topic is None or known.partition >= topic.partition_count:
            raise SourceError(
                f'source "{config.name}": topic "{known.topic}" was received and does not exist'
                " any more, or not all of its partitions",
                hint=f"To begin with what is there now: {command('drop', config.name)}",
            )
        if topic.incarnation != known.incarnation:
            raise _created_again(config.name, known.topic)


def check_still_there(source: str, read: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse records of topics that are others than when they were opened.

    An id is never used twice: a topic that has the one it had was there all the time.
    """
    for topic, incarnation in read.items():
        if now.get(topic) != incarnation:
            raise _created_again(source, topic)


def _created_again(source: str, topic: str) -> SourceError:
    return SourceError(
        f'source "{source}": topic "{topic}" was deleted and created again: its offsets mean other'
        " records now",
        hint=f"To begin with what is there now: {command('drop', source)}",
    )


def deleted(source: str, place: Place, offset: int) -> SourceError:
    """Return the error for records that were deleted before they were received."""
    topic, partition = place
    return SourceError(
        f'source "{source}": partition {partition} of topic "{topic}" has no offset {offset} any'
        " more: records were deleted before they were received",
        hint="Keep records for longer (retention.ms). To begin with what is there now:"
        f' {command("drop", source, "--with-data")}, and start = "retained" in pgrepl.toml.',
    )


def new_partitions(
    config: SourceConfig,
    known: Sequence[Partition],
    topics: Mapping[str, Topic],
    watermarks: Mapping[Place, Watermarks],
) -> Iterator[Partition]:
    """Return the partitions that nothing was received of, from their first record on."""
    places = {(partition.topic, partition.partition) for partition in known}
    for topic in topics.values():
        for number in range(topic.partition_count):
            if (topic.name, number) in places:
                continue
            low = watermarks[topic.name, number].low
            if low > 0 and not _may_begin_late(config.stream, topic):
                raise SourceError(
                    f'source "{config.name}": the first records of topic "{topic.name}" are deleted'
                    f" already: partition {number} begins at offset {low}",
                    hint='To begin with what is left of it: start = "retained" in pgrepl.toml.',
                )
            yield Partition(topic.name, number, topic.incarnation, low, {})


def _may_begin_late(stream: StreamConfig, topic: Topic) -> bool:
    # Compaction alone leaves the last record of each key.
    return stream.start == "retained" or topic.cleanup == {"compact"}
