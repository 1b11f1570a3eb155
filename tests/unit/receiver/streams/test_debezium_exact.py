"""What is kept with an offset, so that events that come again are passed over."""

from __future__ import annotations

import pytest

from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.decoding.records.values import BadValue
from pgrepl.errors import SourceError
from pgrepl.receiver.streams.envelopes.debezium_exact import DebeziumExact, cannot_read_again
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


PLACES = [(PLACE[0], number) for number in range(2)]


def several(read_again=cannot_read_again):
    """Return an envelope of a topic with two partitions."""
    layouts = layouts_of({"orders": {"id": "integer"}})
    made = DebeziumExact(JsonReader(), layouts, Placeholder(), read_again=read_again)
    for place in PLACES:
        made.restore(place, {}, len(PLACES))
    return made


def row(number, lsn):
    return {"id": number}, event("r", after={"id": number}, lsn=lsn, snapshot="true")


def created(number, start, last_commit: int | None = None):
    own = start if last_commit is None else last_commit
    return {"id": number}, event("c", after={"id": number}, last_commit=own, lsn=start, order=1)


def actions(outlet):
    return b"".join(message[:1] for message in outlet.changes())


@pytest.mark.parametrize("last_commit", [21, 0])
def test_first_snapshot_keeps_what_another_partition_brought_after_it(outlet, last_commit):
    envelope = several()
    after = record(PLACES[1], 0, *created(1, 22, last_commit))
    envelope.take(after, outlet.gathered)
    envelope.take(record(PLACES[0], 0, *row(2, 20)), outlet.gathered)
    envelope.take(record(PLACES[0], 1, *row(3, 20)), outlet.gathered)
    assert actions(outlet) == b"III"
    # And that came before is known still.
    envelope.take(after._replace(offset=1), outlet.gathered)
    envelope.take(record(PLACES[1], 2, *created(4, 30)), outlet.gathered)
    assert actions(outlet) == b"I"


def test_snapshot_begun_again_brings_back_what_other_partitions_have_after_it(outlet):
    taken = [
        record(PLACES[1], offset, *own)
        for offset, own in enumerate(
            [row(1, 20), created(5, 25), created(6, 41), created(6, 41), created(7, 42)]
        )
    ]
    envelope = several(lambda place: taken if place == PLACES[1] else [])
    envelope.take(record(PLACES[0], 0, *row(2, 20)), outlet.gathered)
    for own in taken:
        envelope.take(own, outlet.gathered)
    assert actions(outlet) == b"IIIII"
    envelope.take(record(PLACES[0], 1, *row(2, 40)), outlet.gathered)
    # Emptied; what the snapshot does not contain, each once; and its first row.
    assert actions(outlet) == b"TIII"
    envelope.take(taken[-1]._replace(offset=5), outlet.gathered)
    envelope.take(record(PLACES[1], 6, *created(8, 43)), outlet.gathered)
    assert actions(outlet) == b"I"


def test_snapshot_begun_again_is_refused_when_what_followed_is_deleted(outlet):
    envelope = several(lambda place: [record(place, 7, *created(6, 41))])
    envelope.take(record(PLACES[1], 0, *row(1, 20)), outlet.gathered)
    envelope.take(record(PLACES[1], 7, *created(6, 41)), outlet.gathered)
    with pytest.raises(SourceError, match="cannot be read again"):
        envelope.take(record(PLACES[0], 0, *row(2, 40)), outlet.gathered)


@pytest.mark.parametrize("op", ["c", "r"])
def test_events_of_another_server_whose_log_began_again_are_refused(envelope, outlet, op):
    """They are not passed over as if they had come before: they are newer than all that did."""
    take(envelope, outlet, 0, event("r", after={"id": 1}, lsn=1000, snapshot="true"))
    take(envelope, outlet, 1, event("u", after={"id": 1}, last_commit=1000, lsn=1010, order=1))
    assert len(outlet.changes()) == 2
    snapshot = "true" if op == "r" else "false"
    later = event(op, after={"id": 2}, last_commit=1000, lsn=20, order=1, snapshot=snapshot)
    take(envelope, outlet, 2, later)
    later["source"]["ts_ms"] += 1
    with pytest.raises(BadValue, match="another server"):
        take(envelope, outlet, 3, later)
    assert outlet.changes() == []
