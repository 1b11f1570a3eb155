"""Values that Debezium leaves open: a placeholder is never what reaches a table."""

from __future__ import annotations

from typing import Any

import pytest

from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.decoding.records.values import BadValue
from pgrepl.receiver.streams.envelopes.debezium import DebeziumUpsert
from pgrepl.receiver.streams.envelopes.debezium_exact import DebeziumExact
from pgrepl.receiver.streams.transactions import DebeziumTransactions
from tests.support.streams.debezium_made import end, event
from tests.support.streams.stream_intake import Outlet, layouts_of, record

TEXT = "__debezium_unavailable_value"
PLACE, ENDS = ("srv.public.orders", 0), ("srv.transaction", 0)
TABLES = {"orders": {"id": "integer", "note": "text", "tags": "text[]"}}
AT: dict[str, Any] = {"last_commit": 5, "lsn": 6}


@pytest.fixture
def outlet():
    return Outlet()


@pytest.fixture(params=[DebeziumUpsert, DebeziumExact])
def envelope(request):
    made = request.param(JsonReader(), layouts_of(TABLES), Placeholder())
    made.restore(PLACE, {}, 1)
    return made


def created(**values):
    return record(PLACE, 1, {"id": 2}, event("c", after={"id": 2, **values}, order=2, **AT))


def deleted():
    return record(PLACE, 0, {"id": 1}, event("d", before={"id": 1}, order=1, **AT))


@pytest.mark.parametrize("values", [{"note": TEXT, "tags": []}, {"note": "", "tags": [TEXT]}])
def test_row_whose_other_half_is_missing_is_refused(envelope, outlet, values):
    with pytest.raises(BadValue, match="removed by compaction"):
        envelope.take(created(**values), outlet.gathered)
    # Nor when it is tried again.
    with pytest.raises(BadValue, match="leaves values open"):
        envelope.take_again(created(**values), outlet.gathered)
    assert outlet.changes() == []


def test_row_that_moved_keeps_what_is_left_open(envelope, outlet):
    for own in (deleted(), created(note=TEXT, tags=["a"])):
        envelope.take(own, outlet.gathered)
    (moved,) = outlet.changes()
    assert moved[:1] == b"U"
    assert TEXT.encode() not in moved


def test_row_whose_other_half_could_not_be_read_is_parked_at_the_end_of_its_transaction(outlet):
    envelope = DebeziumTransactions(JsonReader(), layouts_of(TABLES), Placeholder(), ENDS[0])
    for place in (PLACE, ENDS):
        envelope.restore(place, {}, 1)
    broken = deleted()._replace(value=b"{")
    for own in (
        broken,
        created(note=TEXT, tags=[]),
        record(ENDS, 0, {"id": "1"}, end(1, 30, {"orders": 2})),
    ):
        envelope.take(own, outlet.gathered)
    assert [(offset, "left" in why or "leaves" in why) for _, offset, why in outlet.parked] == [
        (0, False),
        (1, True),
    ]
    assert outlet.changes() == []


def test_rows_of_a_snapshot_are_whole_whatever_they_say(envelope, outlet):
    row = event("r", after={"id": 2, "note": TEXT, "tags": []}, lsn=5, snapshot="true")
    envelope.take(record(PLACE, 0, {"id": 2}, row), outlet.gathered)
    (inserted,) = outlet.changes()
    assert TEXT.encode() in inserted
