"""Records as Avro, and as our own source reads them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from pgrepl.decoding.debezium.event import read_event
from pgrepl.decoding.records.avro import AvroReader
from pgrepl.decoding.records.registry import Registry
from pgrepl.decoding.row_change import RowChange
from pgrepl.export.envelopes.debezium import DebeziumEnvelope, Moment
from pgrepl.export.envelopes.table_rows import CannotExportError
from pgrepl.export.sinks.avro_records import AvroWriter, avro_schema
from pgrepl.export.tables import Column, ExportedTable
from tests.support.streams import registry as stub

KINDS = ["integer", "smallint", "real", "bytea", "numeric", "text[]", "point", "date", "bit(3)"]
TEXTS = ["1", "2", "NaN", "\\x00ff", "1.10", '{a,NULL,"b c"}', "(1.5,-2)", "infinity", "101"]
MOMENT = Moment(738, 1000, 900, 1_700_000_000_000_000)


def must(value: Any) -> Any:
    """Return what must be there."""
    assert value is not None
    return value


def envelope_of(own):
    envelope = DebeziumEnvelope("srv-1", "shop", lambda: 5_000, is_avro=True)
    envelope.describe(own)
    list(envelope.begin(MOMENT))
    return envelope


def test_event_comes_back_through_the_registry():
    own = ExportedTable(
        "public",
        "orders",
        tuple(Column(f"c{n}", kind, False) for n, kind in enumerate(KINDS)),
        ("c0",),
    )
    envelope = envelope_of(own)
    row = {f"c{n}": text for n, text in enumerate(TEXTS)}
    (record,) = envelope.change(RowChange(b"I", own.name, row), MOMENT)
    deleted, _ = envelope.change(RowChange(b"D", own.name, None, {"c0": "1"}), MOMENT)
    (end,) = envelope.end(MOMENT)
    with stub.Registry() as served:
        registry = Registry(served.address, "shop")
        writer, reader = AvroWriter(registry), AvroReader(registry.find_schema)
        key = reader.read(must(writer.key(record, "srv-1.public.orders")))
        assert key.value == {"c0": 1}
        datum = reader.read(must(writer.value(record, "srv-1.public.orders")))
        after = dict(must(read_event(datum.value).after))
        assert math.isnan(after.pop("c2"))
        point = after.pop("c6")
        assert (point["x"], point["y"], point["srid"]) == (1.5, -2.0, None)
        assert after == {
            "c0": 1,
            "c1": 2,
            "c3": b"\x00\xff",
            "c4": "1.10",
            "c5": ["a", None, "b c"],
            "c7": "infinity",
            "c8": b"\x05",
        }
        logical = {part.name: part.logical for part in must(datum.schema).part("after").parts}
        assert logical["c7"] == "io.debezium.time.IsoDate"
        gone = reader.read(must(writer.value(deleted, "srv-1.public.orders")))
        assert gone.value["before"]["c0"] == 1
        told = reader.read(must(writer.value(end, "srv-1.transaction")))
        assert told.value["event_count"] == 2
        # Key, value and the end: each schema is registered once.
        assert len(served.schemas) == 3
    (name,) = {schema["name"] for schema in [avro_schema(record.schemas.value)]}
    assert name == "Envelope"
    assert avro_schema(record.schemas.value)["namespace"] == "srv_1.public.orders"


def test_name_that_avro_has_not_is_refused():
    own = ExportedTable("public", "t", (Column("größe", "integer", True),), ("größe",))
    envelope = envelope_of(own)
    (record,) = envelope.change(RowChange(b"I", own.name, {"größe": "1"}), MOMENT)
    with pytest.raises(CannotExportError, match="Avro"):
        json.dumps(avro_schema(record.schemas.value))
