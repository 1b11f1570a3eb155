"""Values and schemas of records: what a real Debezium sent, byte by byte, and what is refused."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from pgrepl.decoding.records.avro import AvroReader
from pgrepl.decoding.records.columns import HandlingModes, column_converter
from pgrepl.decoding.records.field_types import type_and_converter
from pgrepl.decoding.records.schema import BadSchema, Field, read_avro, read_connect
from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.decoding.records.values import BITS, SOURCE_TYPE, BadValue
from tests.support.streams.debezium_events import FIXTURES, recorded

SCHEMAS = json.loads((FIXTURES / "avro_schemas_by_id.json").read_text(encoding="utf-8"))

UNKNOWN_ZEROS = (
    "whether it is bit or bit varying is not sent, nor its length, so that its zeros are unknown."
    " Make the column of type bit where the source's is, or have Debezium send its type"
    " (datatype.propagate.source.type)"
)


def find_schema(number):
    if str(number) not in SCHEMAS:
        raise BadValue(f"the registry has no schema {number}")
    return json.loads(SCHEMAS[str(number)]["schema"])


def test_every_recorded_key_and_value_of_avro_is_read_to_its_last_byte():
    reader: Any = AvroReader(find_schema)
    parts = [part for _, *own in recorded("avro") for part in own if part is not None]
    assert len(parts) == 28
    for part in parts:
        datum = reader.read(part)
        assert set(datum.value) == {own.name for own in datum.schema.parts}
        for broken in (part[:-1], part + b"\0", part[1:], b"\0\0\0\xff\xff" + part[5:]):
            with pytest.raises(BadValue):
                reader.read(broken)


def test_registry_is_not_asked_for_each_of_many_records_with_an_unknown_schema():
    asked = []

    def find(number):
        asked.append(number)
        return find_schema(number)

    reader = AvroReader(find)
    for _ in range(1000):
        with pytest.raises(BadValue, match="has no schema 65535"):
            reader.read(b"\0\0\0\xff\xff\0")
        # No registry can have that one.
        with pytest.raises(BadValue, match="no registry has a schema 4278190080"):
            reader.read(b"\0\xff\0\0\0\0")
    assert set(asked) == {65535}
    assert len(asked) < 100


def test_recorded_values_of_avro_are_the_types_and_texts_of_the_source():
    reader: Any = AvroReader(find_schema)
    values = [
        reader.read(value) for topic, _, value in recorded("avro") if topic.endswith(".types")
    ]
    (value,) = (own for own in values if own.value["after"]["id"] == 1)
    row = value.value["after"]
    found = {}
    for part in value.schema.part("after").parts:
        kind, convert = type_and_converter(part)
        try:
            found[part.name] = kind, None if row[part.name] is None else convert(row[part.name])
        except BadValue as exc:
            found[part.name] = kind, str(exc).partition(":")[0]
    assert found == {
        "id": ("integer", "1"),
        # Of a NaN.
        "n": ("numeric", None),
        "n2": ("numeric(30,10)", "12345678901234567890.0123456789"),
        "f8": ("double precision", "NaN"),
        "f4": ("real", "Infinity"),
        "ts": ("timestamp", "infinity"),
        "ts3": ("timestamp", "2024-02-29 12:34:56.789"),
        "tstz": ("timestamptz", "2024-02-29T10:34:56.789123Z"),
        "d": ("date", "2024-02-29"),
        "t": ("time", "24:00:00"),
        "ttz": ("timetz", "07:04:56.5Z"),
        "iv": ("interval", "an interval came as microseconds, which lose its months and days"),
        "by": ("bytea", "\\x00ff"),
        "j": ("json", '{"a": 1.10}'),
        "jb": ("json", '{"a": 1.10, "b": null}'),
        "u": ("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        "h": ("json", '{"a":"1","b":null}'),
        "ia": ("integer[]", '{"1",NULL,"3"}'),
        "ta": ("text[]", '{"a","b,c",NULL}'),
        "na": ("numeric[]", None),
        "m": ("text", "ok"),
        "p": ("point", "(1.5,2.0)"),
        "ip": ("text", "10.0.0.1/24"),
        "mo": ("numeric(64,2)", "-12.34"),
        "b3": ("varbit(3)", "101"),
        "b1": ("boolean", "t"),
        "x": ("xml", "<a/>"),
        "r": ("text", "[1,5)"),
        "c": ("text", "ab   "),
        "tsa": ("timestamptz[]", '{"2024-01-01T00:00:00.000000Z"}'),
        "oi": ("bigint", "4294967295"),
        "vb": (
            "varbit",
            UNKNOWN_ZEROS,
        ),
        "bo": ("boolean", "t"),
    }


def test_schema_whose_name_is_no_text_is_refused():
    value = b'{"schema": {"type": "int32", "name": ["x"]}, "payload": 1}'
    with pytest.raises(BadValue, match="name is no text"):
        JsonReader().read(value)


@pytest.mark.parametrize("run", ["run1", "run2", "run4", "run5"])
def test_every_recorded_key_and_value_of_json_is_read_with_all_of_its_digits(run):
    reader = JsonReader()
    for _, *parts in recorded(run):
        for part in parts:
            if part is not None:
                datum = reader.read(part)
                assert datum.schema is None
                assert datum.value == json.loads(part, parse_float=Decimal)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"nul", b"NaN", b"1e9999999999999999999", b"\xff", b"[" * 100_000]
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(BadValue, match="not JSON"):
        JsonReader().read(text)


@pytest.mark.parametrize(
    ("kind", "modes", "value", "expected"),
    [
        ("numeric(10,2)", {}, "AfQ=", "5.00"),
        ("numeric(10,2)", {"decimal.handling.mode": "string"}, "5.00", "5.00"),
        ("numeric", {}, {"scale": 1, "value": "Cw=="}, "1.1"),
        ("money", {}, "+y4=", "-12.34"),
        ("date", {}, 19782, "2024-02-29"),
        ("date", {"time.precision.mode": "isostring"}, "2024-02-29Z", "2024-02-29"),
        ("timestamp(3) without time zone", {}, 1709210096789, "2024-02-29 12:34:56.789"),
        ("timestamp without time zone", {}, 1709210096789123, "2024-02-29 12:34:56.789123"),
        ("time without time zone", {"time.precision.mode": "connect"}, 1500, "00:00:01.5"),
        ("timestamp with time zone", {}, "-0043-03-15T00:00:00Z", "0044-03-15T00:00:00Z BC"),
        ("bytea", {}, "AP8=", "\\x00ff"),
        ("bytea", {"binary.handling.mode": "hex"}, "00ff", "\\x00ff"),
        ("bytea", {"binary.handling.mode": "base64-url-safe"}, "-_8", "\\xfbff"),
        ("bit(3)", {}, "BQ==", "101"),
        ("integer[]", {}, [1, None], '{"1",NULL}'),
        ("jsonb", {}, {"a": Decimal("1.50")}, '{"a": 1.50}'),
        ("interval", {"interval.handling.mode": "string"}, "P1Y2M", "P1Y2M"),
        ("point", {}, {"x": 1, "y": 2}, "(1,2)"),
        ("inet", {}, "10.0.0.1", "10.0.0.1"),
    ],
)
def test_value_without_a_schema_means_what_the_column_and_the_modes_say(
    kind, modes, value, expected
):
    assert column_converter(kind, HandlingModes(modes))(value) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("numeric", "AfQ="),
        ("numeric(10,2)", 1.5),
        ("date", -622191234),
        ("time without time zone", -1),
        ("timestamp without time zone", "so-on"),
        ("interval", 2629800000000),
        ("bit varying", "BQ=="),
        ("bytea", "%%%"),
        ("integer[]", 7),
        ("text", "a\0b"),
        ("point", 1),
        ("integer", 2**31),
        ("smallint", "x"),
        ("boolean", "perhaps"),
        ("real", Decimal("1e39")),
        ("double precision", Decimal("1e-400")),
        ("money", Decimal("1e20")),
        ("character varying(2)", "abc"),
        ("jsonb", "{a}"),
    ],
)
def test_what_a_column_cannot_have_exactly_is_refused(kind, value):
    with pytest.raises(ValueError, match=r"."):
        column_converter(kind, HandlingModes({}))(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("numeric", Decimal("1e131072")),
        ("numeric", Decimal("1e-16384")),
        ("numeric(4,2)", Decimal(100)),
        ("numeric(4,2)", Decimal("1.005")),
        ("numeric(4,2)", "Infinity"),
        ("money", "Infinity"),
    ],
)
def test_number_that_would_not_fit_or_be_rounded_is_refused(kind, value):
    convert = column_converter(kind, HandlingModes({}, is_plain=True))
    with pytest.raises(BadValue, match=r"out of the range|more digits"):
        convert(value)


def test_number_that_fits_is_taken_as_it_is_written():
    for kind, text in (
        ("numeric", "1e131071"),
        ("numeric(4,2)", "99.9900"),
        ("numeric(4,2)", "NaN"),
        ("numeric(3,-2)", "12300"),
        ("money", "$1,234.50"),
        ("double precision", " -infinity "),
        ("bigint", "-9223372036854775808"),
        ("character varying(2)", "ab   "),
    ):
        assert column_converter(kind, HandlingModes({}, is_plain=True))(text) == text


@pytest.mark.parametrize(
    "schema",
    [None, "struct", {}, {"type": "struct"}, {"type": "odd"}, {"type": "array", "items": None}],
)
def test_what_is_no_schema_of_connect_is_refused(schema):
    with pytest.raises(BadSchema):
        read_connect(schema)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        "odd",
        {"type": "odd"},
        ["int", "string"],
        {"type": ["null", "int", "long"]},
        {"type": "array", "items": {"type": "record", "name": "r", "fields": []}},
        {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}},
        {"type": "array", "items": "null"},
    ],
)
def test_what_is_no_schema_of_avro_or_a_choice_is_refused(schema):
    with pytest.raises(BadSchema):
        read_avro(schema)


def test_names_defined_in_a_schema_of_avro_stand_for_their_types():
    row = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "int"}]}
    schema = {
        "type": "record",
        "name": "Envelope",
        "namespace": "srv",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "again", "type": "srv.Value"},
        ],
    }
    before, after, again = read_avro(schema).parts
    assert before.parts == after.parts == again.parts
    assert before.parts == (Field("id", "int32", is_optional=False),)
    assert [part.is_optional for part in (before, after, again)] == [True, True, False]


def test_record_of_avro_that_contains_itself_is_a_document_and_types_are_read_once():
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "id", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
    }
    _, following = read_avro(node).parts
    assert type_and_converter(following)[0] == "json"
    # Each has the one before it twice: read again for each name they would have no end.
    kind: object = {"type": "record", "name": "t0", "fields": [{"name": "id", "type": "int"}]}
    for number in range(1, 60):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"t{number - 1}"}]
        kind = {"type": "record", "name": f"t{number}", "fields": fields}
    assert [part.name for part in read_avro(kind).parts] == ["a", "b"]


def test_logical_types_of_avro_have_their_types():
    kinds = {
        "timestamp-micros": ("long", 1, "timestamptz", "1970-01-01 00:00:00.000001+00"),
        "local-timestamp-millis": ("long", 1, "timestamp", "1970-01-01 00:00:00.001"),
        "date": ("int", 1, "date", "1970-01-02"),
        "uuid": ("string", "a" * 32, "uuid", "a" * 32),
    }
    for logical, (kind, value, column, text) in kinds.items():
        own, convert = type_and_converter(read_avro({"type": kind, "logicalType": logical}))
        assert (own, convert(value)) == (column, text)
    fixed = {"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"}
    assert type_and_converter(read_avro(fixed))[1](b"\x11" * 16) == (
        "11111111-1111-1111-1111-111111111111"
    )


DECIMAL = Field("n", "bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "2"})
VARIABLE = Field("n", "struct", "io.debezium.data.VariableScaleDecimal")


def test_decimal_of_any_number_of_digits_is_exact():
    number = int(Decimal("12345" * 25_000))
    data = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    _, convert = type_and_converter(DECIMAL)
    assert convert(data) == f"{'12345' * 25_000}"[:-2] + ".45"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (DECIMAL, b"\x7f" * 1_000_000),
        (VARIABLE, {"scale": 2_000_000_000, "value": "AQ=="}),
        (VARIABLE, {"scale": -2_000_000_000, "value": "AQ=="}),
        (
            Field("b", "bytes", BITS, {"length": "2000000000", SOURCE_TYPE: "BIT"}),
            b"\x01",
        ),
    ],
)
def test_value_that_claims_to_be_huge_is_refused_and_not_printed(field, value):
    with pytest.raises(BadValue, match="than any"):
        type_and_converter(field)[1](value)
