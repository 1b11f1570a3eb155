"""A real Debezium, killed many times; records by the million, corrupt ones, and huge ones."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from pgrepl.throwaway import Broker
from tests.support.database import Database
from tests.support.machine.memory import peak_mib
from tests.support.streams.debezium_live import LiveDebezium
from tests.support.streams.debezium_made import end, event
from tests.support.streams.kafka import Stream, Topics

PARKED_OFFSETS = "select record_offset from replication.parked_record"


@pytest.fixture
def topics(broker: Broker) -> Topics:
    return Topics(broker)


def receive_in_process(stream: Stream) -> int:
    """Receive what is there in a process of its own, and return the most memory that it took."""
    peak = 0
    with subprocess.Popen(
        [
            *(sys.executable, "-P", "-m", "pgrepl.cli", "receive", stream.name, "--once"),
            *("--config", str(stream.path)),
        ]
    ) as process:
        while process.poll() is None:
            with suppress(OSError, ValueError):
                peak = max(peak, peak_mib(process.pid))
            time.sleep(0.05)
    assert process.returncode == 0
    return peak


@pytest.mark.timeout(3600)
def test_debezium_killed_again_and_again(
    source: Database, target: Database, broker: Broker, tmp_path
):
    chance = random.Random(7)
    live = LiveDebezium(source, Topics(broker), tmp_path, seed=7)
    stream = Stream(target, tmp_path, kind="kafka", bootstrap=broker.bootstrap, **live.settings())
    for _ in range(10):
        live.run(die_after=chance.randrange(5, 120), transactions=40)
        stream.bring()
        assert stream.rows(live.total) == [(0,)]
    live.run()
    stream.bring()
    live.assert_equal(stream)


def corrupt(numbers: range) -> Iterator[tuple[bytes, bytes]]:
    """Return records that cannot be read, for one reason after the other, of 8 KB each."""
    pad = "x" * 8000
    for number in numbers:
        # Each stands after the one before it: none is taken for one that came before.
        place: dict[str, Any] = {"last_commit": 2000 + number, "lsn": 2000 + number, "order": 1}
        shapes: list[Any] = [
            lambda: b"not JSON " + pad.encode(),
            lambda: b"\xff\xfe" * 4000,
            lambda: {"op": "c", "pad": pad},
            lambda: event("c", table="people", after={"id": 1, "unknown": pad}, **place),  # noqa: B023
            lambda: {**event("c", table="people", **place), "after": [pad]},  # noqa: B023
            lambda: event("c", table="people", after={"name": pad}, **place),  # noqa: B023
        ]
        made = shapes[number % len(shapes)]()
        value = made if isinstance(made, bytes) else json.dumps(made).encode()
        yield b'{"id": %d}' % number, value


@pytest.mark.timeout(1200)
def test_thousands_of_corrupt_records_harm_only_themselves(
    target: Database, topics: Topics, tmp_path
):
    """Other topics, and another source beside it, go on; memory does not grow with their number."""
    place: dict[str, Any] = {"last_commit": 1000, "lsn": 1000}
    sound = [
        ({"id": n}, event("c", table="people", after={"id": n}, order=1, last_commit=n, lsn=n))
        for n in (10, 100_000)
    ]
    bad, good = topics.make("public.people"), topics.make("public.others")
    settings = {"kind": "kafka", "bootstrap": topics.broker.bootstrap, "envelope": "debezium"}
    stream = Stream(target, tmp_path, topics=[bad, good], **settings)
    folder = tmp_path / "second"
    folder.mkdir()
    second = Stream(target, folder, name="second", topics=[good], **settings)
    topics.send(bad, sound[:1])
    topics.send(good, [({"id": 1}, event("c", table="others", after={"id": 1}, order=1, **place))])
    for own in (stream, second):
        with pytest.raises(Exception, match="no table"):
            own.receive()
    target.execute(
        "create table feed_public.people (id int primary key)",
        "create table feed_public.others (id int primary key)",
        "create table second_public.others (id int primary key)",
    )
    topics.send(bad, corrupt(range(100)))
    few = receive_in_process(stream)
    topics.send(bad, corrupt(range(100, 50_100)))
    topics.send(bad, sound[1:])
    later: dict[str, Any] = {"last_commit": 2000, "lsn": 2000}
    topics.send(good, [({"id": 2}, event("c", table="others", after={"id": 2}, order=1, **later))])
    many = receive_in_process(stream)
    # They are 400 MB; librdkafka reads up to 64 MB ahead.
    assert many < few + 140
    second.receive()
    assert second.replay().error is None
    assert second.rows("select id from second_public.others order by 1") == [(1,), (2,)]
    result = stream.replay()
    assert (result.error, result.parked) == (None, [])
    assert stream.rows("select id from feed_public.people order by 1") == [(10,), (100_000,)]
    assert stream.rows("select id from feed_public.others order by 1") == [(1,), (2,)]
    assert stream.rows("select count(*) from replication.parked_record") == [(50_100,)]
    assert stream.rows("select count(*) from replication.parked_table") == [(0,)]


@pytest.mark.timeout(1200)
def test_ten_thousand_retractions_of_rows_never_seen_are_parked_each_alone(
    target: Database, topics: Topics, tmp_path
):
    """Sound events among them are applied, other tables and another source go on."""
    wrong, good = topics.make("public.people"), topics.make("public.others")
    settings = {"kind": "kafka", "bootstrap": topics.broker.bootstrap, "envelope": "debezium"}
    stream = Stream(target, tmp_path, topics=[wrong, good], **settings)
    folder = tmp_path / "second"
    folder.mkdir()
    second = Stream(target, folder, name="second", topics=[good], **settings)

    def made(op: str, table: str, number: int) -> tuple[Any, Any]:
        row: dict[str, Any] = {"before" if op == "d" else "after": {"id": number}}
        place: dict[str, Any] = {"last_commit": 1000 + number, "lsn": 1000 + number, "order": 1}
        return {"id": number}, event(op, table=table, **row, **place)

    topics.send(good, [made("c", "others", number) for number in range(100)])
    topics.send(wrong, (made("cdud"[number % 4], "people", number) for number in range(13_334)))
    for own in (stream, second):
        with pytest.raises(Exception, match="no table"):
            own.receive()
    target.execute(
        "create table feed_public.people (id int primary key)",
        "create table feed_public.others (id int primary key)",
        "create table second_public.others (id int primary key)",
    )
    stream.receive()
    second.receive()
    result = stream.replay()
    assert (result.error, result.parked) == (None, [])
    assert stream.rows("select count(*) from replication.parked_record") == [(10_000,)]
    assert stream.rows("select count(*), sum(id % 4) from feed_public.people") == [(3334, 0)]
    assert stream.rows("select count(*) from feed_public.others") == [(100,)]
    assert second.replay().error is None
    assert stream.rows("select count(*) from second_public.others") == [(100,)]


def some_refused(envelope: str, size: int, numbers: range) -> Iterator[tuple[Any, Any]]:
    """Return changes of some rows, every tenth of which a check or a unique key refuses."""
    for number in numbers:
        own = number % size
        is_bad = number % 10 == 7
        row = {"id": own, "name": "evil" if is_bad else f"n{number}", "code": number}
        if number % 20 == 17:
            row = {**row, "name": "fine", "code": 1}
        if envelope == "upsert":
            yield {"id": own}, row
            continue
        # Of rows that are refused a second change is one of a row that was never seen.
        place: dict[str, Any] = {"last_commit": 1000 + number, "lsn": 1000 + number, "order": 1}
        op = "c" if number < size else "u"
        key = None if envelope == "without a key" else {"id": own}
        old = {"id": own, "name": f"n{number - size}", "code": number - size}
        before = old if key is None and op == "u" else None
        yield key, event(op, table="people", before=before, after=row, **place)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("envelope", "size"),
    # Without a key each try looks through the table.
    [("upsert", 10_000), ("debezium", 10_000), ("without a key", 1000)],
)
def test_ten_thousand_refused_among_a_hundred_thousand(
    target: Database, topics: Topics, tmp_path, envelope, size
):
    wrong, good = topics.make("public.people"), topics.make("public.others")
    stream = Stream(
        target,
        tmp_path,
        kind="kafka",
        bootstrap=topics.broker.bootstrap,
        topics=[wrong, good],
        envelope="upsert" if envelope == "upsert" else "debezium",
    )
    topics.send(wrong, some_refused(envelope, size, range(1)))
    with pytest.raises(Exception, match="no table"):
        stream.receive()
    is_keyed = envelope != "without a key"
    target.execute(
        f"create table feed_public.people (id int {'primary key' if is_keyed else ''},"
        " name text check (name <> 'evil'), code int unique)",
        "create table feed_public.others (id int primary key)",
    )
    stream.bring()
    topics.send(wrong, some_refused(envelope, size, range(1, 10 * size)))
    one: Any = {"id": 1}
    if envelope != "upsert":
        one = event("c", table="others", after=one, last_commit=1, lsn=2, order=1)
    topics.send(good, [({"id": 1}, one)])
    stream.receive()
    result = stream.replay()
    assert (result.error, result.parked) == (None, [])
    assert stream.rows("select id from feed_public.others") == [(1,)]
    # Each record is there, or parked, or another one of its key came after it.
    parked = {offset for (offset,) in stream.rows(f"{PARKED_OFFSETS} where topic = '{wrong}'")}
    expected: dict[int, tuple[str, int]] = {}
    for number, (_, own) in enumerate(some_refused(envelope, size, range(10 * size))):
        row = own if envelope == "upsert" else own["after"]
        if number not in parked:
            expected[row["id"]] = row["name"], row["code"]
    found = stream.rows("select id, name, code from feed_public.people")
    assert {number: rest for number, *rest in found} == {
        number: list(rest) for number, rest in expected.items()
    }
    assert len(found) == len(expected)
    assert len(parked) >= 0.9 * size


@pytest.mark.timeout(1800)
def test_million_records_in_flat_memory(target: Database, topics: Topics, tmp_path):
    topic = topics.make("public.people", partitions=4)
    stream = Stream(
        target, tmp_path, kind="kafka", bootstrap=topics.broker.bootstrap, topics=[topic]
    )
    key = {"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}]}
    row = {**key, "fields": [*key["fields"], {"type": "string", "optional": True, "field": "name"}]}

    def send(numbers):
        topics.send(
            topic,
            (
                (
                    {"schema": key, "payload": {"id": number % 1000}},
                    {"schema": row, "payload": {"id": number % 1000, "name": f"n{number}"}},
                )
                for number in numbers
            ),
        )

    send(range(100_000))
    few = receive_in_process(stream)
    for first in range(100_000, 1_000_000, 50_000):
        send(range(first, first + 50_000))
    many = receive_in_process(stream)
    assert many < few + 40
    received = "select sum(next_offset)::int from replication.stream_partition"
    assert stream.rows(received) == [(1_000_000,)]
    stream.replay()
    assert stream.rows("select count(*), min(name) from feed_public.people") == [(1000, "n999000")]


@pytest.mark.timeout(1800)
def test_huge_transaction_in_bounded_memory(target: Database, topics: Topics, tmp_path):
    topic, ends = topics.make("public.people", partitions=2), topics.make("transaction")
    stream = Stream(
        target,
        tmp_path,
        kind="kafka",
        bootstrap=topics.broker.bootstrap,
        topics=[topic],
        envelope="debezium",
        transaction_topic=ends,
    )

    def send(xid, count):
        place = {"xid": xid, "last_commit": xid * 1000, "lsn": xid * 1000}
        for first in range(0, count, 10_000):
            topics.send(
                topic,
                (
                    (
                        {"id": order},
                        event(
                            "c" if xid == 1 else "u",
                            table="people",
                            after={"id": order, "pad": f"{xid}" + "x" * 1000},
                            order=order,
                            **place,
                        ),
                    )
                    for order in range(first + 1, min(first + 10_000, count) + 1)
                ),
            )
        topics.send(ends, [({"id": xid}, end(xid, xid * 1000 + 1000, {"people": count}))])

    send(1, 1000)
    with pytest.raises(Exception, match="no table"):
        stream.receive()
    target.execute("create table feed_public.people (id int primary key, pad text)")
    few = receive_in_process(stream)
    stream.replay()
    target.execute(
        "insert into feed_public.people select g, '' from generate_series(1001, 300000) g"
    )
    # Half a gigabyte of events.
    send(2, 300_000)
    many = receive_in_process(stream)
    assert many < few + 250
    assert stream.rows("select count(distinct seq) from replication.raw_messages") == [(1,)]
    stream.replay()
    assert stream.rows("select count(*) from feed_public.people where pad like '2%'") == [
        (300_000,)
    ]
