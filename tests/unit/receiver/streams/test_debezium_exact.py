"""What is kept with an offset, so that events that come again are passed over."""

from __future__ import annotations

import pytest

from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.decoding.records.values import BadValue
from pgrepl.receiver.streams.envelopes.debezium_exact import DebeziumExact
from tests.support.streams.debezium_made import event
from tests.support.streams.stream_intake import Outlet, layouts_of, record

PLACE = ("srv.public.orders", 0)


@pytest.fixture
def envelope():
    made = DebeziumExact(JsonReader(), layouts_of({"orders": {"id": "integer"}}), Placeholder())
    made.restore(PLACE, {}, 1)
    return made


@pytest.fixture
def outlet():
    return Outlet()


def take(envelope, outlet, offset, own):
    envelope.take(record(PLACE, offset, {"id": 1}, own), outlet.gathered)


def test_state_moves_past_a_delete_when_what_follows_cannot_be_read(envelope, outlet):
    take(envelope, outlet, 0, event("d", before={"id": 1}, last_commit=5, lsn=6, order=1))
    assert envelope.first_waiting(PLACE) == 0
    assert envelope.state_of(PLACE)["last_commit"] == -1
    bad = event("c", after={"unknown": 1}, last_commit=7, lsn=8, order=1)
    with pytest.raises(BadValue, match="no column"):
        take(envelope, outlet, 1, bad)
    assert envelope.first_waiting(PLACE) is None
    assert envelope.state_of(PLACE)["last_commit"] == 7
    assert len(outlet.changes()) == 1


def test_row_without_a_key_that_may_have_come_again_is_refused(envelope, outlet):
    rows = [event("c", after={"id": n}, last_commit=5, lsn=6) for n in (1, 2, 1, 3)]
    for offset, own in enumerate(rows[:2]):
        envelope.take(record(PLACE, offset, None, own), outlet.gathered)
    assert len(outlet.changes()) == 2
    # A row like the first, and then whatever follows at that place of the log.
    for offset, own in enumerate(rows[2:], 2):
        with pytest.raises(BadValue, match=r"provide\.transaction\.metadata"):
            envelope.take(record(PLACE, offset, None, own), outlet.gathered)
    assert envelope.state_of(PLACE)["is_unclear"]
    after = event("c", after={"id": 1}, last_commit=5, lsn=7)
    envelope.take(record(PLACE, 4, None, after), outlet.gathered)
    assert len(outlet.changes()) == 1
    # With a key it is certain, and passed over.
    take(envelope, outlet, 5, after)
    assert outlet.changes() == []


def test_rows_of_a_snapshot_that_come_again_after_an_event_are_passed_over(envelope, outlet):
    row = event("r", after={"id": 1}, lsn=5, snapshot="true")
    take(envelope, outlet, 0, row)
    take(envelope, outlet, 1, event("u", after={"id": 1}, last_commit=5, lsn=8, order=1))
    assert len(outlet.changes()) == 2
    take(envelope, outlet, 2, row)
    assert outlet.changes() == []
    # One that was begun again later is another.
    take(envelope, outlet, 3, event("r", after={"id": 1}, lsn=9, snapshot="true"))
    assert [message[:1] for message in outlet.changes()] == [b"T", b"I"]
