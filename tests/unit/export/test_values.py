"""PostgreSQL's text of a value as events have it, and as our own source reads it back."""

from __future__ import annotations

import json
import math

import pytest

from pgrepl.decoding.debezium.placeholders import Placeholder
from pgrepl.decoding.records.columns import HandlingModes, column_converter
from pgrepl.decoding.records.field_types import type_and_converter
from pgrepl.decoding.records.values import BadValue
from pgrepl.export.envelopes.values import column_type
from pgrepl.export.sinks.json_records import to_json

VALUES = [
    ("smallint", "-32768", -32768),
    ("bigint", "9223372036854775807", 9223372036854775807),
    ("boolean", "t", True),
    ("boolean", "false", False),
    ("numeric(10,2)", "1.10", "1.10"),
    ("numeric", "NaN", "NaN"),
    ("real", "0.1", 0.1),
    ("double precision", "1e+300", 1e300),
    ("double precision", "NaN", "NaN"),
    ("double precision", "-Infinity", "-Infinity"),
    ("bytea", "\\x00ff", b"\x00\xff"),
    ("character(5)", "ab   ", "ab   "),
    ("jsonb", '{"a": 1}', '{"a": 1}'),
    ("date", "0044-03-15 BC", "-0043-03-15Z"),
    ("date", "12345-01-01", "+12345-01-01Z"),
    ("date", "-infinity", "-infinity"),
    ("timestamp(3) without time zone", "2024-02-29 12:34:56.789", "2024-02-29T12:34:56.789Z"),
    ("timestamp with time zone", "2024-02-29 12:34:56+00", "2024-02-29T12:34:56Z"),
    ("timestamp with time zone", "0044-03-15 01:00:00+00 BC", "-0043-03-15T01:00:00Z"),
    ("time without time zone", "24:00:00", "24:00:00Z"),
    ("time with time zone", "07:04:56.5+05:30", "07:04:56.5+05:30"),
    ("interval", "1 year 2 mons -3 days +04:05:06.5", "P1Y2M-3DT4H5M6.5S"),
    ("interval", "-00:01:00", "P0Y0M0DT0H-1M0S"),
    ("bit(1)", "1", True),
    ("bit(12)", "000000000011", b"\x03\x00"),
    ("bit varying(8)", "0101", "0101"),
    ("uuid", "5e3b2f4e-0000-4000-8000-000000000000", "5e3b2f4e-0000-4000-8000-000000000000"),
    ("integer[]", "{1,NULL,3}", [1, None, 3]),
    ("text[]", '{a,"b \\"c\\" \\\\d",NULL,"NULL"}', ["a", 'b "c" \\d', None, "NULL"]),
    ("integer[]", "{{1,2},{3,4}}", [[1, 2], [3, 4]]),
    ("date[]", "{2024-01-01}", ["2024-01-01Z"]),
    ("app.mood", "sad", "sad"),
]


@pytest.mark.parametrize(("kind", "text", "value"), VALUES)
def test_value_has_debezium_s_form(kind, text, value):
    assert column_type(kind).encode(text) == value


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, _, value in VALUES])
def test_value_comes_back_as_it_was(kind, value):
    own = column_type(kind)
    sent = json.loads(to_json(value))
    modes = HandlingModes({"decimal.handling.mode": "string"})
    if kind.startswith("bit varying"):
        # Without a schema nobody knows whether it is digits or Debezium's bytes.
        with pytest.raises(BadValue, match="length"):
            column_converter(kind, modes)(sent)
        found = []
    else:
        found = [column_converter(kind, modes)(sent)]
    if own.field.parameters.get("length") is None:
        found.append(type_and_converter(own.field)[1](sent))
    for back in found:
        assert column_type(kind).encode(normal(kind, back)) == value


def normal(kind, text):
    """Print a value as PostgreSQL does that came in another form that it takes as well."""
    if kind == "bit(1)":
        return text.replace("t", "1")
    if kind.startswith("timestamp"):
        text = text.replace("T", " ")
        return text.replace("Z", "+00") if "with time zone" in kind else text
    if kind.startswith("interval"):
        # ISO's form is taken, and not printed.
        return {
            "P1Y2M-3DT4H5M6.5S": "1 year 2 mons -3 days 04:05:06.5",
            "P0Y0M0DT0H-1M0S": "-00:01:00",
        }[text]
    return text


def test_avro_has_numbers_that_json_has_not():
    assert math.isnan(column_type("real", is_avro=True).encode("NaN"))
    with pytest.raises(ValueError, match="dimensions"):
        column_type("integer[]", is_avro=True).encode("{{1},{2}}")


@pytest.mark.parametrize(
    ("kind", "text"),
    [("integer[]", "[0:1]={1,2}"), ("point", "(NaN,1)"), ("integer[]", "{1"), ("date", "x")],
)
def test_value_without_an_exact_form_is_refused(kind, text):
    with pytest.raises(ValueError, match=r"array|point|date"):
        column_type(kind).encode(text)


@pytest.mark.parametrize(
    "kind", ["text", "jsonb", "numeric", "bytea", "text[]", "bigint[]", "uuid[]", "real[]"]
)
def test_what_stands_for_an_unchanged_value_is_recognized(kind):
    sent = json.loads(to_json(column_type(kind).placeholder))
    assert Placeholder().stands_for(sent)
