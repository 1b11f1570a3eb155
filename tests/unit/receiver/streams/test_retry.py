"""Which parked records may still be received: those that nothing came after."""

from __future__ import annotations

import pytest

from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.receiver.streams.envelopes.debezium import DebeziumUpsert
from pgrepl.receiver.streams.envelopes.debezium_exact import DebeziumExact
from pgrepl.receiver.streams.envelopes.upsert import UpsertEnvelope
from pgrepl.receiver.streams.retry import Candidates
from tests.support.streams.debezium_made import event
from tests.support.streams.stream_intake import Outlet, layouts_of, record

PLACE, OTHER = ("srv.public.orders", 0), ("srv.public.orders", 1)
TABLES = {"orders": {"id": "integer", "note": "text", "n": "integer"}}
UNAVAILABLE = "__debezium_unavailable_value"
ENVELOPES = [DebeziumExact, DebeziumUpsert]


class Past:
    """Records that were received, and from where on they are kept."""

    def __init__(self, *records, low=0):
        self.records = records
        self.low = low

    def has(self, _place, offset):
        return offset >= self.low

    def read(self, place, first):
        return [own for own in self.records if own.place != place or own.offset >= first]


def candidates_of(envelope, offsets, also_parked=(), **given):
    parked = {*offsets, *also_parked}
    return Candidates(
        *(envelope, PLACE, offsets, lambda place, offset: place == PLACE and offset in parked),
        **given,
    )


def judge(envelope, past, offsets, also_parked=()):
    outlet = Outlet()
    candidates = candidates_of(envelope, offsets, also_parked)
    candidates.judge(past)
    outcomes = candidates.gather(outlet.gathered)
    return [own.verdict for own in outcomes], [own.reason for own in outcomes], outlet.changes()


def upsert():
    return UpsertEnvelope(JsonReader(), layouts_of(TABLES))


def debezium(kind=DebeziumExact, partitions=2):
    envelope = kind(JsonReader(), layouts_of(TABLES), Placeholder())
    for place in (PLACE, OTHER):
        envelope.restore(place, {}, partitions)
    return envelope


def put(offset, number, place=PLACE):
    return record(place, offset, {"id": number}, {"n": offset})


def test_later_record_of_the_key_supersedes_and_others_do_not():
    past = Past(put(1, 1), put(2, 2), put(3, 3), put(4, 2))
    verdicts, reasons, changes = judge(upsert(), past, [1, 2])
    assert verdicts == ["received", "superseded"]
    assert reasons[1] == "a later record of its key is at partition 0, offset 4"
    assert len(changes) == 1


def test_parked_records_of_one_key_are_received_in_their_order():
    verdicts, _, changes = judge(upsert(), Past(put(1, 1), put(2, 9), put(3, 1)), [1, 3])
    assert verdicts == ["received", "received"]
    assert [message[-1:] for message in changes] == [b"1", b"3"]


def test_what_is_compacted_deleted_keyless_or_still_unreadable_is_not_received():
    bad = record(PLACE, 6, {"id": 6}, {"unknown": 1})
    past = Past(put(5, 5), bad, record(PLACE, 7, None, {"n": 1}), low=3)
    verdicts, reasons, changes = judge(upsert(), past, [2, 4, 6, 7])
    assert verdicts == ["parked", "superseded", "parked", "parked"]
    assert "deleted from its topic" in reasons[0]
    assert "compaction" in reasons[1]
    assert reasons[2] == 'the target\'s table has no column "unknown"'
    assert reasons[3].startswith("it has no key")
    assert changes == []


@pytest.mark.parametrize(
    ("later", "verdict"),
    [
        (event("t", lsn=50, order=1), "superseded"),
        (event("r", after={"id": 9, "n": 1}, lsn=50, snapshot="true"), "superseded"),
        # Before it: what stands in another partition may be older.
        (event("t", lsn=10, order=1), "received"),
        (event("u", after={"id": 9, "n": 1}, lsn=50, order=1), "received"),
    ],
)
def test_truncation_or_snapshot_in_any_partition_supersedes_what_was_before_it(later, verdict):
    own = event("c", after={"id": 1, "n": 1}, lsn=20, order=1)
    past = Past(record(PLACE, 1, {"id": 1}, own), record(OTHER, 0, {"id": 9}, later))
    verdicts, _, changes = judge(debezium(), past, [1])
    assert verdicts == [verdict]
    assert len(changes) == (verdict == "received")


def deleted(offset, number):
    own = event("d", before={"id": number}, lsn=20, order=1)
    return record(PLACE, offset, {"id": number}, own)


def changed(offset, number, op="u", order=2, **values):
    own = event(op, after={"id": number, **values}, lsn=20, order=order)
    return record(PLACE, offset, {"id": number}, own)


@pytest.mark.parametrize("kind", ENVELOPES)
def test_tombstone_does_not_supersede_the_delete_before_it(kind):
    past = Past(deleted(1, 8), record(PLACE, 2, {"id": 8}, None))
    verdicts, _, changes = judge(debezium(kind), past, [1])
    assert (verdicts, [message[:1] for message in changes]) == (["received"], [b"D"])


def test_tombstone_supersedes_what_is_no_delete_where_it_deletes():
    past = Past(changed(1, 8, n=1), record(PLACE, 2, {"id": 8}, None))
    assert judge(debezium(DebeziumUpsert), past, [1])[0] == ["superseded"]


@pytest.mark.parametrize("kind", ENVELOPES)
def test_both_records_of_a_move_are_received_as_one_if_values_are_left_open(kind):
    tombstone = record(PLACE, 2, {"id": 8}, None)
    past = Past(deleted(1, 8), tombstone, changed(3, 9, "c", n=1, note=UNAVAILABLE))
    verdicts, _, changes = judge(debezium(kind, partitions=1), past, [1, 3])
    assert verdicts == ["received", "received"]
    assert [message[:1] for message in changes] == [b"U"]
    # A row that is whole is there though the one that it was may not be.
    past = Past(deleted(1, 8), tombstone, changed(3, 9, "c", n=1, note=""))
    verdicts, _, changes = judge(debezium(kind, partitions=1), past, [1, 3])
    assert verdicts == ["received", "received"]
    assert len(changes) == 2


@pytest.mark.parametrize("kind", ENVELOPES)
def test_later_record_that_is_parked_itself_supersedes_nothing(kind):
    past = Past(changed(1, 1, "c", order=1, n=1, note=""), changed(2, 1, n=2, note=""))
    assert judge(debezium(kind), past, [1], also_parked=[2])[0] == ["received"]
    assert judge(debezium(kind), past, [1])[0] == ["superseded"]


@pytest.mark.parametrize("kind", ENVELOPES)
def test_later_record_that_leaves_a_value_open_does_not_let_that_go(kind):
    one, two = changed(1, 1, n=1, note="big"), changed(2, 1, n=2, note=UNAVAILABLE)
    verdicts, reasons, changes = judge(debezium(kind), Past(one, two), [1])
    assert (verdicts, changes) == (["parked"], [])
    assert "leaves values as they were" in reasons[0]
    # Nothing of it is left when a later one has the value, or it had none itself.
    assert judge(debezium(kind), Past(one, two, changed(3, 1, n=3, note="")), [1])[0] == [
        "superseded"
    ]
    open_too = changed(1, 1, n=1, note=UNAVAILABLE)
    assert judge(debezium(kind), Past(open_too, two), [1])[0] == ["superseded"]


def test_no_more_of_them_are_kept_than_there_is_room_for():
    """What has none is judged next: neither received before others of its key, nor passed over."""
    past = Past(put(1, 1), put(2, 2), put(3, 1), put(4, 9))
    outlet, left, received = Outlet(), [1, 2, 3, 4], []
    while left:
        candidates = candidates_of(upsert(), left, limit_bytes=1)
        candidates.judge(past)
        received += [(own.offset, own.verdict) for own in candidates.gather(outlet.gathered)]
        left = candidates.late
    assert received == [(number, "received") for number in (1, 2, 3, 4)]
    assert [message[-1:] for message in outlet.changes()] == [b"1", b"2", b"3", b"4"]
