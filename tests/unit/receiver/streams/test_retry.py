"""Which parked records may still be received: those that nothing came after."""

from __future__ import annotations

import pytest

from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.receiver.streams.envelopes.debezium_exact import DebeziumExact
from pgrepl.receiver.streams.envelopes.upsert import UpsertEnvelope
from pgrepl.receiver.streams.retry import Candidates
from tests.support.streams.debezium_made import event
from tests.support.streams.stream_intake import Outlet, layouts_of, record

PLACE, OTHER = ("srv.public.orders", 0), ("srv.public.orders", 1)
TABLES = {"orders": {"id": "integer", "n": "integer"}}


class Past:
    """Records that were received, and from where on they are kept."""

    def __init__(self, *records, low=0):
        self.records = records
        self.low = low

    def has(self, _place, offset):
        return offset >= self.low

    def read(self, place, first):
        return [own for own in self.records if own.place != place or own.offset >= first]


def judge(envelope, past, offsets):
    outlet = Outlet()
    candidates = Candidates(envelope, PLACE, offsets)
    candidates.judge(past)
    outcomes = candidates.gather(outlet.gathered)
    return [own.verdict for own in outcomes], [own.reason for own in outcomes], outlet.changes()


def upsert():
    return UpsertEnvelope(JsonReader(), layouts_of(TABLES))


def debezium():
    envelope = DebeziumExact(JsonReader(), layouts_of(TABLES), Placeholder())
    for place in (PLACE, OTHER):
        envelope.restore(place, {}, 2)
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
