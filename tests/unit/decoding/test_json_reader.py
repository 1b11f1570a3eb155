"""A schema that comes with every record is read once, and no value is another one for that."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.records import serialized
from pgrepl.decoding.records.serialized import JsonReader
from pgrepl.decoding.records.values import BadValue
from tests.support.examples import examples

SCHEMA = {"type": "struct", "fields": [{"type": "int32", "field": "id", "optional": False}]}
HEAD = b'{"schema":' + json.dumps(SCHEMA).encode() + b',"payload":'


@pytest.fixture
def reader():
    """A reader that has read a record with the schema."""
    own = JsonReader()
    own.read(HEAD + b'{"id":1}}')
    return own


def outcome(reader, data):
    try:
        return repr(reader.read(data))
    except BadValue as exc:
        return str(exc)


def test_the_schema_is_the_same_object_for_every_record(reader):
    first, second = (reader.read(HEAD + b'{"id":%d}}' % number) for number in (1, 2))
    assert first.schema is second.schema
    assert (first.value, second.value) == ({"id": 1}, {"id": 2})
    spaced = b'{ "schema" : ' + json.dumps(SCHEMA).encode() + b', "payload": {"id": 3} }'
    assert reader.read(spaced).schema is first.schema


def test_numbers_keep_their_digits(reader):
    text = b"[12345678901234567890123456789012345678901234567890, 0.10, 1e400]"
    big, fraction, far = reader.read(HEAD + text + b"}").value
    assert big == 12345678901234567890123456789012345678901234567890
    assert (str(fraction), far) == ("0.10", Decimal("1e400"))


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b'1,"payload":2}',
        HEAD + b'1,"schema":null}',
        HEAD + b'1,"other":2}',
        HEAD + b"1} ",
        HEAD + b"1}}",
        HEAD + b"1",
        HEAD + b"}",
        HEAD + b"NaN}",
        HEAD + b'"\xff"}',
        HEAD + b'"\xed\xa0\x80"}',
        HEAD + b"[" * 100_000 + b"}",
        b'{"payload":1,' + HEAD[1:] + b"2}",
        b"\xef\xbb\xbf" + HEAD + b"1}",
        (HEAD + b"1}").decode().encode("utf-16"),
        b'{"payload":{"id":1}}',
    ],
)
def test_what_is_not_like_the_others_is_read_as_if_it_came_first(reader, data):
    assert outcome(reader, data) == outcome(JsonReader(), data)
    assert outcome(reader, data) == outcome(JsonReader(), data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@examples(20)
@given(st.lists(JSON, max_size=4), st.dictionaries(st.sampled_from(["payload", "b"]), st.text()))
def test_any_payload_is_read_as_without_a_reader_that_knows(payloads, parameters):
    knowing = JsonReader()
    for payload in payloads:
        schema = {"type": "string", "parameters": parameters}
        data = json.dumps({"schema": schema, "payload": payload}).encode()
        assert outcome(knowing, data) == outcome(JsonReader(), data)
        assert knowing.read(data).value == payload


def test_schemas_that_are_always_others_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(serialized, "_KEPT_BYTES", 10_000)
    own = JsonReader()
    for number in range(2000):
        schema = {"type": "string", "name": f"{number:04}", "doc": "x" * 500}
        own.read(json.dumps({"schema": schema, "payload": number}).encode())
        kept = [head for heads in own._heads.values() for head, _ in heads]
        assert sum(map(len, [*kept, *own._schemas])) <= 10_000
