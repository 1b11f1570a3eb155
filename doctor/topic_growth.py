"""Whether a topic got partitions after records were written to it: told by where keys are. Pure.

Kafka does not say so. But a producer puts a key where a hash of it says, by the number of
partitions: a key that is where it would be with fewer of them was written when there were fewer.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping

from pgrepl.doctor.finding import Finding, Remedy, Status

__all__ = ["check_growth", "java_hash"]

_SEED = 0x9747B28C
_FACTOR, _SHIFT = 0x5BD1E995, 24
_MASK = 0xFFFFFFFF
_SIGN = 0x7FFFFFFF


def java_hash(key: bytes) -> int:
    """Return the hash by which Java's clients, and Kafka Connect, choose a partition (murmur2).

    >>> java_hash(b"21") % 1000, java_hash(b"foobar") % 1000
    (340, 166)
    """
    found = _SEED ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> _SHIFT) * _FACTOR & _MASK
        found = found * _FACTOR & _MASK ^ word
    rest = key[whole:]
    if rest:
        found = (found ^ int.from_bytes(rest, "little")) * _FACTOR & _MASK
    found = (found ^ found >> 13) * _FACTOR & _MASK
    return (found ^ found >> 15) & _SIGN


#: How producers choose: Java's, and librdkafka's unless it is told otherwise.
_HASHES: tuple[Callable[[bytes], int], ...] = (java_hash, zlib.crc32)


def check_growth(
    counts: Mapping[str, int], keys: Iterable[tuple[str, int, bytes | None]]
) -> Iterator[Finding]:
    """Check keys of topics, each with its partition; ``counts`` are those of partitions now."""
    by_topic: dict[str, set[tuple[int, bytes]]] = {}
    for topic, partition, key in keys:
        if key is not None:
            by_topic.setdefault(topic, set()).add((partition, key))
    grown = {
        topic: before
        for topic, own in by_topic.items()
        if (before := _find_count_before(counts[topic], own)) is not None
    }
    if grown:
        topic, before = next(iter(grown.items()))
        yield Finding(
            "partitions",
            Status.WARNING,
            f"keys are where they would be with {before} of {counts[topic]} partitions: some were"
            f" added after records were written, and records of one key may be in two: {topic}",
            Remedy(
                then="their order is unknown, and an older value may win: use the transaction"
                " topic, or write the records to another topic and receive that"
            ),
            tuple(grown),
        )


def _find_count_before(count: int, keys: Iterable[tuple[int, bytes]]) -> int | None:
    """Return how many partitions there were when some of the keys were written; None: the same."""
    for hash_of in _HASHES:
        placed = [(partition, hash_of(key)) for partition, key in keys]
        others = [own for own in placed if own[1] % count != own[0]]
        if not others:
            return None
        for before in range(1, count):
            if all(number % before == partition for partition, number in others):
                return before
    return None
