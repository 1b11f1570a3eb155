"""A topic that got partitions is known by where its keys are."""

from __future__ import annotations

import zlib

import pytest

from pgrepl.doctor.topic_growth import check_growth, java_hash

KEYS = [b'{"id":%d}' % number for number in range(40)]
HASHES = {"java": java_hash, "librdkafka": zlib.crc32}


@pytest.mark.parametrize(
    ("key", "expected"),
    # As Java computes them.
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_javas(key, expected):
    assert java_hash(key) == expected & 0x7FFFFFFF


def written(keys, count, hash_of=java_hash):
    return [("t", hash_of(key) % count, key) for key in keys]


@pytest.mark.parametrize("hash_of", HASHES.values(), ids=HASHES)
@pytest.mark.parametrize(("before", "now"), [(1, 2), (2, 3), (3, 12)])
def test_keys_of_a_topic_that_grew_are_found(hash_of, before, now):
    keys = [*written(KEYS[:20], before, hash_of), *written(KEYS[10:], now, hash_of)]
    (finding,) = check_growth({"t": now, "other": 1}, keys)
    assert finding.check == "partitions"
    assert finding.remedy is not None
    assert f"with {before} of {now} partitions" in finding.message
    assert finding.objects == ("t",)
    # What is kept may all be from before.
    (finding,) = check_growth({"t": now}, written(KEYS, before, hash_of))
    assert f"with {before} of {now}" in finding.message


@pytest.mark.parametrize(
    "keys",
    [
        [],
        written(KEYS, 4),
        written(KEYS, 4, zlib.crc32),
        # Without a key, or by rules of their own.
        [("t", 0, None), ("t", 3, None)],
        [("t", number % 4, key) for number, key in enumerate(KEYS)],
    ],
)
def test_nothing_is_said_of_others(keys):
    assert list(check_growth({"t": 4}, keys)) == []
