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
