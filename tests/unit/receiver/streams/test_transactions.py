"""Transactions across topics and partitions: whole, in order, in bounded memory."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.pgoutput.framing import unpack
from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.errors import SourceError
from pgrepl.receiver.streams.transactions import DebeziumTransactions
from pgrepl.receiver.streams.waiting import Memory
from tests.support.streams.debezium_made import end, event
from tests.support.streams.stream_intake import Outlet, layouts_of, record

ENDS = ("srv.transaction", 0)
TABLES = {name: {"id": "integer", "n": "integer"} for name in ("orders", "lines")}


class Rig:
    def __init__(self, memory=None, limit_bytes=1 << 30, partitions=2, reader=None):
        self.outlet = Outlet(limit_bytes)
        self.envelope = DebeziumTransactions(
            reader or JsonReader(),
            layouts_of({**TABLES, "other": TABLES["orders"]}),
            Placeholder(),
            ENDS[0],
            memory,
        )
        self.places = [(f"srv.public.{t}", p) for t in TABLES for p in range(partitions)]
        for place in (*self.places, ENDS):
            self.envelope.restore(place, {}, 1 if place == ENDS else partitions)
        self.offsets = dict.fromkeys((*self.places, ENDS), 0)

    def take(self, place, key, value):
        self.envelope.take(record(place, self.offsets[place], key, value), self.outlet.gathered)
        self.offsets[place] += 1

    def insert(self, partition, number, table="orders", **given):
        after = {"id": number, "n": number}
        place = (f"srv.public.{table}", partition)
        self.take(place, {"id": number}, event("c", table=table, after=after, **given))

    def end(self, xid, lsn, **counts):
        self.take(ENDS, {"id": f"{xid}:{lsn}"}, end(xid, lsn, counts))

    def numbers(self):
        """The ids that were gathered since the last call, in order."""
        return [int(message.split(b"t", 1)[1][4:].split(b"t", 1)[0]) for message in self._changes()]

    def _changes(self):
        return self.outlet.changes()


def test_events_leave_together_in_the_order_of_the_transaction_and_only_when_all_are_there():
    rig = Rig()
    rig.insert(0, 2, last_commit=10, lsn=21, order=2)
    rig.end(1, 30, orders=3)
    rig.insert(1, 1, last_commit=10, lsn=20, order=1)
    # Of the next transaction, in a partition that is further on.
    rig.insert(1, 9, xid=2, last_commit=30, lsn=31, order=1)
    assert rig.numbers() == []
    assert [rig.envelope.first_waiting(place) for place in (*rig.places[:2], ENDS)] == [0, 0, 0]
    rig.insert(0, 3, last_commit=10, lsn=22, order=3)
    assert rig.numbers() == [1, 2, 3]
    assert [rig.envelope.first_waiting(place) for place in (*rig.places[:2], ENDS)] == [
        None,
        1,
        None,
    ]
    rig.end(2, 40, orders=1)
    assert rig.numbers() == [9]
    # All of it again.
    rig.insert(1, 9, xid=2, last_commit=30, lsn=31, order=1)
    rig.end(2, 40, orders=1)
    assert rig.numbers() == []


def test_numbers_that_a_restart_inside_of_a_group_gives_twice_hide_no_event():
    """Debezium before 3.7 steps over the rest of a group, and gives its numbers to what follows."""
    rig = Rig()
    rig.insert(0, 1, last_commit=10, lsn=20, order=1)
    # It is killed after the third one, and goes on after the first.
    rig.insert(1, 2, last_commit=10, lsn=20, order=2)
    rig.insert(0, 3, last_commit=10, lsn=30, order=3)
    rig.insert(0, 3, last_commit=10, lsn=30, order=2)
    rig.insert(0, 4, last_commit=10, lsn=40, order=3)
    rig.insert(1, 5, last_commit=10, lsn=50, order=4)
    rig.end(1, 60, orders=4)
    assert rig.numbers() == [1, 2, 3, 4, 5]


def test_events_of_a_transaction_leave_in_the_order_of_the_log_when_numbers_are_given_twice():
    rig = Rig()
    rig.insert(0, 1, last_commit=10, lsn=20, order=1)
    rig.insert(1, 2, last_commit=10, lsn=20, order=2)
    rig.insert(0, 3, last_commit=10, lsn=30, order=2)
    rig.end(1, 40, orders=2)
    assert rig.numbers() == [1, 2, 3]


def test_tables_that_no_topic_of_ours_has_are_not_waited_for():
    rig = Rig()
    rig.insert(0, 1, last_commit=10, lsn=20, order=1)
    rig.end(1, 30, orders=1, others=7)
    assert rig.numbers() == [1]


def test_events_of_a_transaction_whose_end_passed_or_is_missing_are_let_go(caplog):
    rig = Rig()
    rig.end(1, 30, other=1)
    rig.insert(0, 1, last_commit=10, lsn=20, order=1)
    # Found late: the end was there before its topic.
    assert rig.numbers() == [1]
    # The end of transaction 2 could not be read; that of 3 is there.
    rig.insert(0, 2, xid=2, last_commit=30, lsn=35, order=1)
    assert rig.numbers() == []
    rig.insert(0, 3, xid=3, last_commit=40, lsn=45, order=1)
    rig.end(3, 50, orders=1)
    assert rig.numbers() == [2, 3]
    assert "has no end in the transaction topic" in caplog.text


def test_record_that_cannot_be_read_counts_and_is_parked_alone():
    rig = Rig()
    place = rig.places[0]
    rig.insert(0, 1, last_commit=10, lsn=20, order=1)
    rig.take(place, {"id": 2}, "no event")
    rig.insert(0, 3, last_commit=10, lsn=22, order=3)
    rig.end(1, 30, orders=3)
    assert rig.numbers() == [1, 3]
    assert [(own, offset) for own, offset, _ in rig.outlet.parked] == [(place, 1)]
    assert rig.envelope.first_waiting(place) is None


def test_row_of_an_incremental_snapshot_blocks_nothing():
    rig = Rig()
    rig.take(rig.places[0], {"id": 1}, event("r", after={"id": 1}, snapshot="incremental"))
    rig.insert(0, 2, last_commit=10, lsn=20, order=1)
    rig.end(1, 30, orders=1)
    assert rig.numbers() == [2]
    assert "incremental snapshot" in rig.outlet.parked[0][2]


@pytest.mark.parametrize("seed", range(5))
def test_what_waits_in_a_file_leaves_as_what_waits_in_memory(seed):
    chance = random.Random(seed)
    rig = Rig(Memory(limit_bytes=2000), limit_bytes=4000)
    whole = Rig()
    number, last_commit = 0, 10
    for xid in range(1, 8):
        count = chance.choice([1, 5, 300])
        counts = {"orders": 0, "lines": 0}
        arrivals: dict[Any, list[Any]] = {place: [] for place in rig.places}
        for order in range(1, count + 1):
            number += 1
            place = chance.choice(rig.places)
            table = place[0].rpartition(".")[2]
            counts[table] += 1
            given = {"xid": xid, "last_commit": last_commit, "lsn": last_commit + order}
            arrivals[place].append((number, table, {**given, "order": order}))
        last_commit += count + 5
        # Partitions come one after another; the end comes anywhere.
        steps: list[Any] = [("end", None), *arrivals.items()]
        chance.shuffle(steps)
        for own in (rig, whole):
            for place, events in steps:
                if events is None:
                    own.end(xid, last_commit, **counts)
                for event_number, table, given in events or ():
                    own.insert(place[1], event_number, table, **given)
    parts = rig.outlet.end()
    expected = whole.outlet.end()
    assert [part.part for part in parts] == list(range(len(parts)))
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert rig.outlet.most_bytes < 4500
    assert changes_by_bucket(parts) == changes_by_bucket(expected)
    assert rig.envelope._memory.byte_count == 0
    assert all(rig.envelope.first_waiting(place) is None for place in (*rig.places, ENDS))


def changes_by_bucket(parts):
    found: dict[int, list[bytes]] = {}
    for part in parts:
        messages = [m for m in unpack(part.payload[0]) if m[:1] not in b"BR"]
        assert len(messages) == part.change_count
        found.setdefault(part.bucket, []).extend(messages)
    return found


def test_transaction_that_lacks_events_is_told_once_while_nothing_comes(caplog):
    rig = Rig()
    rig.insert(0, 1, last_commit=10, lsn=20, order=1)
    rig.end(1, 30, orders=3)
    for _ in range(2):
        rig.envelope.settle(rig.outlet.gathered)
    (told,) = caplog.records
    assert (told.xid, told.missing) == (1, "public.orders: 2")
    assert rig.numbers() == []
    # They come after all.
    rig.insert(0, 2, last_commit=10, lsn=21, order=2)
    rig.insert(1, 3, last_commit=10, lsn=22, order=3)
    rig.envelope.settle(rig.outlet.gathered)
    assert rig.numbers() == [1, 2, 3]
    assert len(caplog.records) == 1


class Surprised(JsonReader):
    """Meets a value that its author did not think of."""

    def read(self, data):
        if b"surprise" in data:
            raise OverflowError("a surprise of 42")
        return super().read(data)


def test_record_of_a_shape_that_nobody_foresaw_counts_and_is_parked_alone():
    rig = Rig(reader=Surprised())
    rig.take(rig.places[0], {"id": 1}, {"payload": "surprise"})
    rig.insert(1, 2, last_commit=10, lsn=21, order=2)
    rig.end(1, 30, orders=2)
    assert rig.numbers() == [2]
    reason = "this version of pgrepl does not know its shape (OverflowError)"
    assert rig.outlet.parked == [(rig.places[0], 0, reason)]


def test_snapshot_that_is_begun_again_empties_its_table_after_what_came_before():
    """Its rows are read while transactions that it contains wait still."""
    rig = Rig(partitions=2)

    def row(number, lsn, partition=0):
        own = event("r", table="orders", after={"id": number, "n": 1}, lsn=lsn, snapshot="true")
        rig.take(("srv.public.orders", partition), {"id": number}, own)

    row(1, 100)
    rig.insert(0, 2, xid=1, lsn=110, order=1)
    rig.insert(1, 3, xid=1, lsn=111, order=2)
    rig.insert(0, 4, xid=2, last_commit=120, lsn=121, order=1)
    # Debezium begins again; what it sent before waits for its ends.
    for number in (1, 2, 3, 4):
        row(number, 200)
    rig.insert(0, 5, xid=3, lsn=210, order=1)
    rig.end(1, 120, orders=2)
    rig.end(2, 130, orders=1)
    rig.end(3, 220, orders=1)
    changes = rig.outlet.changes()
    kinds = b"".join(change[:1] for change in changes)
    # The first row; the table is emptied; the rows of the newer snapshot and what follows it.
    assert kinds.endswith(b"TIIIII")
    assert kinds.count(b"T") == 1


def keyless(rig, partition, number, **given):
    own = event("c", after={"id": number, "n": number}, **given)
    rig.take((f"srv.public.{own['source']['table']}", partition), None, own)


def test_events_without_a_key_that_are_sent_again_to_another_partition_are_passed_over():
    rig = Rig()
    keyless(rig, 0, 1, last_commit=10, lsn=20, order=1)
    rig.end(1, 30, orders=2)
    # The one that was there is not the one that is missing.
    keyless(rig, 1, 1, last_commit=10, lsn=20, order=1)
    assert rig.numbers() == []
    keyless(rig, 0, 2, last_commit=10, lsn=21, order=2)
    assert rig.numbers() == [1, 2]
    keyless(rig, 1, 2, last_commit=10, lsn=21, order=2)
    assert rig.numbers() == []
    keyless(rig, 0, 3, xid=2, last_commit=30, lsn=31, order=1)
    rig.end(2, 40, orders=1)
    assert rig.numbers() == [3]
    # After a restart too.
    again = Rig()
    for place in (*rig.places, ENDS):
        again.envelope.restore(place, rig.envelope.state_of(place), 1 if place == ENDS else 2)
    keyless(again, 1, 3, xid=2, last_commit=30, lsn=31, order=1)
    keyless(again, 1, 4, xid=3, last_commit=40, lsn=41, order=1)
    again.end(3, 50, orders=1)
    assert again.numbers() == [4]


def test_events_of_the_first_transaction_are_passed_over_in_another_partition_too():
    """Before it no transaction ended, which its events say, too."""
    rig = Rig()
    keyless(rig, 0, 1, lsn=20, order=1)
    keyless(rig, 0, 2, lsn=21, order=2)
    rig.end(1, 30, orders=2)
    assert rig.numbers() == [1, 2]
    keyless(rig, 1, 2, lsn=21, order=2)
    assert rig.numbers() == []
    # After a restart too: what follows in that partition is not held up.
    again = Rig()
    for place in (*rig.places, ENDS):
        again.envelope.restore(place, rig.envelope.state_of(place), 1 if place == ENDS else 2)
    keyless(again, 1, 2, lsn=21, order=2)
    keyless(again, 1, 3, xid=2, last_commit=30, lsn=31, order=1)
    again.end(2, 40, orders=1)
    assert again.numbers() == [3]


def test_events_without_a_key_of_a_topic_that_was_found_late_are_taken():
    rig = Rig()
    keyless(rig, 0, 1, last_commit=10, lsn=20, order=1)
    rig.end(1, 30, orders=1, late=2)
    rig.end(2, 40, late=1)
    assert rig.numbers() == [1]
    late = [("srv.public.lines2", number) for number in range(2)]
    for place in late:
        rig.envelope.restore(place, {}, 2)
        rig.offsets[place] = 0
    for partition, number in ((0, 5), (1, 6)):
        own = event(
            "c",
            table="lines",
            after={"id": number, "n": 0},
            last_commit=10,
            lsn=20 + number,
            order=number,
        )
        rig.take(late[partition], None, own)
    assert rig.numbers() == [5, 6]


def test_events_without_a_key_of_a_topic_that_is_not_named_after_its_table_are_taken():
    """Until the first of them is there nothing tells that an end counts them."""
    rig = Rig()
    odd = [("changes", number) for number in range(2)]

    def restore(envelope, states=({}, {})):
        for place, state in zip(odd, states, strict=True):
            envelope.restore(place, state, 2)
            rig.offsets.setdefault(place, 0)

    def take(own, partition, number, **given):
        made = event("c", table="other", after={"id": number, "n": 0}, **given)
        own.take(odd[partition], None, made)

    restore(rig.envelope)
    rig.end(1, 30, other=2)
    take(rig, 0, 1, last_commit=10, lsn=20, order=1)
    take(rig, 1, 2, last_commit=10, lsn=21, order=2)
    assert rig.numbers() == [1, 2]
    # From then on they are waited for, after a restart too.
    states = [rig.envelope.state_of(place) for place in odd]
    again = Rig()
    again.offsets.update(dict.fromkeys(odd, 2))
    for place in (*rig.places, ENDS):
        again.envelope.restore(place, rig.envelope.state_of(place), 1 if place == ENDS else 2)
    restore(again.envelope, states)
    again.end(2, 40, other=2)
    take(again, 0, 3, xid=2, last_commit=30, lsn=31, order=1)
    assert again.numbers() == []
    take(again, 1, 4, xid=2, last_commit=30, lsn=32, order=2)
    assert again.numbers() == [3, 4]
    # Sent again.
    take(again, 1, 3, xid=2, last_commit=30, lsn=31, order=1)
    assert again.numbers() == []


def test_ends_of_another_server_whose_log_began_again_are_refused():
    rig = Rig()
    rig.insert(0, 1, last_commit=1000, lsn=1020, order=1)
    rig.end(1, 1030, orders=1)
    assert rig.numbers() == [1]
    later = end(9, 50, {"orders": 1})
    rig.take(ENDS, {"id": "1:1030"}, end(1, 1030, {"orders": 1}))
    later["ts_ms"] += 1
    with pytest.raises(SourceError, match="another server"):
        rig.take(ENDS, {"id": "9:50"}, later)
