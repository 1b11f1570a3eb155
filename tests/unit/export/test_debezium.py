"""Changes as Debezium's events and as upserts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pgrepl.decoding.debezium.event import read_end, read_event
from pgrepl.decoding.records.schema import read_connect
from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.decoding.row_change import RowChange
from pgrepl.export.envelopes.debezium import DebeziumEnvelope, Moment
from pgrepl.export.envelopes.table_rows import CannotExportError, UnknownColumnError
from pgrepl.export.envelopes.upsert import UpsertEnvelope
from pgrepl.export.sinks.json_records import JsonWriter, connect_schema
from pgrepl.export.tables import Column, ExportedTable

ORDERS = ExportedTable(
    "public",
    "orders",
    (Column("id", "integer", True), Column("note", "text", False), Column("n", "bigint", True)),
    ("id",),
    frozenset({"made"}),
)
BAG = ExportedTable("public", "bag", (Column("x", "integer", False),), ())
MOMENT = Moment(738, 1000, 900, 1_700_000_000_000_000)
NAME = ORDERS.name


def must(value: Any) -> Any:
    """Return what must be there."""
    assert value is not None
    return value


def debezium():
    envelope = DebeziumEnvelope("srv", "shop", lambda: 5_000)
    envelope.describe(ORDERS)
    envelope.describe(BAG)
    list(envelope.begin(MOMENT))
    return envelope


def upsert():
    envelope = UpsertEnvelope("srv")
    envelope.describe(ORDERS)
    return envelope


def insert(**row):
    return RowChange(b"I", NAME, {"note": None, "n": "1", **row})


def test_event_is_one_that_our_own_source_reads():
    envelope = debezium()
    (record,) = envelope.change(insert(id="1", made="7"), MOMENT)
    event = read_event(json.loads(must(JsonWriter(has_schemas=False).value(record))))
    assert (event.op, event.lsn, event.xid, event.last_commit) == ("c", 1000, 738, 900)
    assert (event.order, event.has_lasting_order) == (1, True)
    assert event.after == {"id": 1, "note": None, "n": 1}
    assert event.commit_us == MOMENT.at_us
    list(envelope.change(RowChange(b"T", BAG.name), MOMENT))
    (end,) = envelope.end(MOMENT)
    told = must(read_end(json.loads(must(JsonWriter(has_schemas=False).value(end)))))
    assert (told.xid, told.lsn, told.event_count) == (738, 1000, 2)
    assert told.counts == {NAME: 1, BAG.name: 1}


def test_schemas_are_those_of_connect():
    (record,) = debezium().change(insert(id="1"), MOMENT)
    datum = JsonReader().read(must(JsonWriter(has_schemas=True).value(record)))
    schema = must(datum.schema)
    assert schema.logical == "srv.public.orders.Envelope"
    after = schema.part("after")
    assert [(part.name, part.type, part.is_optional) for part in after.parts] == [
        ("id", "int32", False),
        ("note", "string", True),
        # Of a deleted row only the key is known.
        ("n", "int64", True),
    ]
    key = read_connect(connect_schema(record.schemas.key))
    assert key.logical == "srv.public.orders.Key"
    assert [part.name for part in key.parts] == ["id"]


def test_change_of_a_key_is_a_delete_a_tombstone_and_a_create():
    change = RowChange(b"U", NAME, {"id": "2", "n": "1"}, {"id": "1"})
    deleted, tombstone, created = debezium().change(change, MOMENT)
    assert (deleted.key, deleted.value["op"]) == ({"id": 1}, "d")
    assert deleted.headers == {"__debezium.newkey": {"id": 2}}
    assert (tombstone.key, tombstone.value, tombstone.is_tombstone) == ({"id": 1}, None, True)
    assert (created.key, created.value["op"]) == ({"id": 2}, "c")
    assert created.headers == {"__debezium.oldkey": {"id": 1}}
    assert created.value["after"]["note"] == "__debezium_unavailable_value"
    orders = [r.value["transaction"]["total_order"] for r in (deleted, created)]
    assert orders == [1, 2]


def test_unchanged_value_is_taken_from_the_old_row():
    old = {"id": "1", "note": "long", "n": "1"}
    (record,) = debezium().change(RowChange(b"U", NAME, {"id": "1", "n": "2"}, old), MOMENT)
    assert record.value["before"] == {"id": 1, "note": "long", "n": 1}
    assert record.value["after"] == {"id": 1, "note": "long", "n": 2}


def test_structure_that_nobody_told_of_is_refused():
    with pytest.raises(UnknownColumnError, match='column "colour"'):
        list(debezium().change(insert(id="1", colour="red"), MOMENT))
    with pytest.raises(UnknownColumnError, match='without column "n"'):
        list(debezium().change(RowChange(b"I", NAME, {"id": "1", "note": "x"}), MOMENT))


def test_event_of_a_keyless_table_must_have_the_old_row():
    record, _ = debezium().change(RowChange(b"D", BAG.name, None, {"x": "1"}), MOMENT)
    assert (record.key, record.value["before"]) == (None, {"x": 1})
    with pytest.raises(CannotExportError, match="which row"):
        list(debezium().change(RowChange(b"U", BAG.name, {"x": "2"}), MOMENT))


def test_upsert_is_the_row_and_null_deletes():
    (record,) = upsert().change(insert(id="1"), MOMENT)
    assert (record.key, record.value) == ({"id": 1}, {"id": 1, "note": None, "n": 1})
    old, new = upsert().change(
        RowChange(b"U", NAME, {"id": "2", "note": "a", "n": "1"}, {"id": "1"}), MOMENT
    )
    assert (old.key, old.value) == ({"id": 1}, None)
    assert (new.key, new.value["note"]) == ({"id": 2}, "a")
    (gone,) = upsert().change(RowChange(b"D", NAME, None, {"id": "2"}), MOMENT)
    assert (gone.key, gone.value) == ({"id": 2}, None)


def test_what_an_upsert_has_no_form_for_is_refused():
    with pytest.raises(CannotExportError, match="TRUNCATE"):
        list(upsert().change(RowChange(b"T", NAME), MOMENT))
    with pytest.raises(CannotExportError, match="out of line"):
        list(upsert().change(RowChange(b"U", NAME, {"id": "1", "n": "1"}), MOMENT))


def test_table_survives_the_way_through_json():
    assert ExportedTable.load(json.loads(json.dumps(ORDERS.dump()))) == ORDERS
