"""Files of three formats: every record once, from any offset, and what is not whole waits."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from pgrepl.decoding.records.field_types import type_and_converter
from pgrepl.errors import SourceError
from pgrepl.receiver.files.folder import by_table
from pgrepl.receiver.files.reader import open_reader

SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {
            "name": "n",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
    ],
}


def avro(numbers, *, codec="null", per_block=3):
    sink = io.BytesIO()
    rows = [
        {"id": n, "at": dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "n": Decimal("1.50")}
        for n in numbers
    ]
    fastavro.writer(sink, SCHEMA, rows, codec=codec, sync_interval=per_block * 8)
    return sink.getvalue()


def read_all(path, offset=0, key=("id",)):
    reader = open_reader(path.name, path, offset, key)
    found: list[Any] = []
    while records := reader.read():
        found += records
    reader.close()
    return found


def texts(record):
    """Return the row as a table gets it."""
    value, schema = record.value
    pairs = {part.name: type_and_converter(part) for part in schema.parts}
    return {
        name: (kind, None if value[name] is None else convert(value[name]))
        for name, (kind, convert) in pairs.items()
    }


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_avro_is_read_from_any_offset(tmp_path, codec):
    path = tmp_path / "t.avro"
    path.write_bytes(avro(range(10), codec=codec))
    records = read_all(path)
    assert [record.value.value["id"] for record in records] == list(range(10))
    assert records[3].key.value == {"id": 3}
    assert texts(records[0]) == {
        "id": ("integer", "0"),
        "at": ("timestamptz", "2024-02-29 00:00:00+00"),
        "n": ("numeric(9,2)", "1.50"),
    }
    offsets = [record.offset for record in records]
    assert sorted(set(offsets)) == offsets
    assert [record.next_offset for record in records[:-1]] == offsets[1:]
    assert records[-1].next_offset == path.stat().st_size
    for number, record in enumerate(records):
        rest = read_all(path, record.next_offset)
        assert [own.offset for own in rest] == offsets[number + 1 :]


def test_avro_that_grows_is_read_block_by_block(tmp_path):
    path = tmp_path / "t.avro"
    data = avro(range(10))
    found: list[int] = []
    reader: Any = open_reader("t.avro", path, 0, ())
    for size in range(1, len(data) + 1, 7):
        path.write_bytes(data[:size])
        found += [record.value.value["id"] for record in reader.read()]
    path.write_bytes(data)
    found += [record.value.value["id"] for record in reader.read()]
    assert found == list(range(10))


def test_corrupt_block_of_avro_is_one_record_and_lost_framing_ends_the_file(tmp_path):
    path = tmp_path / "t.avro"
    data = bytearray(avro(range(9), codec="deflate"))
    records = read_all_bytes(path, bytes(data))
    second, third = records[2].offset, records[4].offset
    data[second + 4] ^= 0xFF
    found = read_all_bytes(path, bytes(data))
    bad = [record for record in found if record.problem]
    assert [record.problem for record in bad] == ["a block of 2 records cannot be read"]
    assert (bad[0].offset, bad[0].next_offset) == (second, third)
    assert len(found) == 8
    # Its sync marker.
    data[third - 1] ^= 0xFF
    with pytest.raises(SourceError, match=f"no block at byte {second}"):
        read_all_bytes(path, bytes(data))
    with pytest.raises(SourceError, match="does not begin as those do"):
        read_all_bytes(path, b"PAR1" + bytes(data))


def read_all_bytes(path, data):
    path.write_bytes(data)
    return read_all(path)


def test_parquet_has_its_types_and_is_read_from_any_row(tmp_path):
    path = tmp_path / "t.parquet"
    at = dt.datetime.fromisoformat("2024-02-29 12:34:56.789123")
    columns = {
        "id": pa.array(range(9), pa.int32()),
        "u": pa.array([2**64 - 1] * 9, pa.uint64()),
        "n": pa.array([Decimal("-1.50")] * 9, pa.decimal128(9, 2)),
        "d": pa.array([dt.date(2024, 2, 29)] * 9),
        "d64": pa.array([dt.date(1969, 12, 31)] * 9, pa.date64()),
        "ts": pa.array([at] * 9, pa.timestamp("us")),
        "tss": pa.array([at.replace(microsecond=0)] * 9, pa.timestamp("s")),
        "tsz": pa.array([at.replace(tzinfo=dt.UTC)] * 9, pa.timestamp("ns", "UTC")),
        "t": pa.array([dt.time(1, 2, 3)] * 9, pa.time32("s")),
        "b": pa.array([b"\0\xff"] * 9),
        "f": pa.array([0.1] * 9, pa.float32()),
        "word": pa.array(["a"] * 9).dictionary_encode(),
        "list": pa.array([[1, None]] * 9, pa.list_(pa.int64())),
        "doc": pa.array([{"a": 1, "at": dt.date(1970, 1, 2)}] * 9),
        "map": pa.array([[("k", 1)]] * 9, pa.map_(pa.string(), pa.int32())),
        "none": pa.array([None] * 9, pa.string()),
    }
    parquet.write_table(pa.table(columns), path, row_group_size=4)
    records = read_all(path)
    assert [record.offset for record in records] == list(range(9))
    assert texts(records[0]) == {
        "id": ("integer", "0"),
        "u": ("numeric(20,0)", "18446744073709551615"),
        "n": ("numeric(9,2)", "-1.50"),
        "d": ("date", "2024-02-29"),
        "d64": ("date", "1969-12-31"),
        "ts": ("timestamp", "2024-02-29 12:34:56.789123"),
        "tss": ("timestamp", "2024-02-29 12:34:56"),
        "tsz": ("timestamptz", "2024-02-29 12:34:56.789123+00"),
        "t": ("time", "01:02:03"),
        "b": ("bytea", "\\x00ff"),
        "f": ("real", "0.10000000149011612"),
        "word": ("text", "a"),
        "list": ("bigint[]", '{"1",NULL}'),
        "doc": ("json", '{"a": 1, "at": 1}'),
        "map": ("json", '{"k": 1}'),
        "none": ("text", None),
    }
    for offset in range(10):
        rest = read_all(path, offset)
        assert [record.value.value["id"] for record in rest] == list(range(offset, 9))


def test_key_and_value_of_a_line_a_row_or_an_event(tmp_path):
    path = tmp_path / "t.jsonl"
    lines = [
        {"key": {"id": 1}, "value": {"n": 1}},
        {"key": {"id": 2}, "value": None},
        {"id": 3, "n": 3},
        {"op": "d", "source": {}, "before": {"id": 4, "n": 4}, "after": None},
        {"n": 5},
        [6],
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "no JSON\nhalf a li")
    records = read_all(path)
    assert [None if r.key is None else r.key.value for r in records] == [
        *({"id": number} for number in (1, 2, 3, 4)),
        *(None, None, None),
    ]
    assert records[1].value is None
    assert records[-1].problem == "it is not JSON"
    assert records[-1].next_offset == path.read_bytes().rindex(b"half")


def test_files_of_a_table_are_read_in_the_order_of_their_names():
    names = ["public.a/2.avro", "public.b.jsonl", "public.a/1.jsonl", "public.a/10.parquet"]
    assert by_table(names) == [
        ["public.a/1.jsonl", "public.a/10.parquet", "public.a/2.avro"],
        ["public.b.jsonl"],
    ]
