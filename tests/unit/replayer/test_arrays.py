"""Small net changes become statements with arrays, or are left to a staging table."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.changes import NULL
from pgrepl.decoding.wal2json.grammar import copy_value
from pgrepl.errors import SpoolError
from pgrepl.replayer.shard.fold import KeyedNet, net_of
from pgrepl.replayer.shard.merging.arrays import FEW_ROWS, array_statements
from pgrepl.replayer.shard.merging.copy_text import array_text
from tests.support.messages.replay_lines import column, line, read, shape

ARRAYS = {"integer": ("pg_catalog", "_int4"), "text": ("pg_catalog", "_text")}


def sendable(name, kind="text"):
    return replace(column(name, kind), array_type=ARRAYS[kind])


TABLE = shape(sendable("id", "integer"), sendable("note"), sendable("body"), key=("id",))


def statements(table, *lines):
    net = net_of(table, read(table, lines))
    assert isinstance(net, KeyedNet)
    return array_statements(table, net)


def copy_text(value):
    """Return a value as COPY takes it, with escapes as JSON has them too."""
    if value is None:
        return NULL
    escapes = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", '"': '\\"', "/": "\\/", "\b": "\\b"}
    return "".join(escapes.get(character, character) for character in value).encode()


def parse_array(text):
    """Read the text of an array as PostgreSQL does."""
    assert text[:1] + text[-1:] == b"{}"
    body = text[1:-1].decode()
    values: list[str | None] = []
    at = 0
    while at < len(body):
        if body[at] != '"':
            end = body.find(",", at)
            end = len(body) if end < 0 else end
            assert body[at:end] == "NULL"
            values.append(None)
            at = end + 1
            continue
        at += 1
        value = ""
        while body[at] != '"':
            at += body[at] == "\\"
            value += body[at]
            at += 1
        values.append(value)
        assert body[at + 1 : at + 2] in ("", ",")
        at += 2
    return values


@given(
    st.lists(
        st.none() | st.text(st.sampled_from('ab,{}"\\\n\t\b/NUL é'), max_size=6),
        min_size=1,
        max_size=8,
    )
)
def test_array_has_the_values(values):
    assert parse_array(array_text([copy_text(value) for value in values])) == values


@given(st.text(st.sampled_from('ab"\\\n\t\b\f\x01\x1f/u0é'), max_size=8))
def test_control_characters_are_themselves(text):
    printed = json.dumps(text, ensure_ascii=False)[1:-1].encode()
    assert parse_array(array_text([copy_value(printed)])) == [text]


@pytest.mark.parametrize("text", [rb"a\u0000", rb"\u0020", rb"\u12", b"\\u0001\0", rb"\\\\\u00e9"])
def test_escapes_that_wal2json_does_not_print_are_refused(text):
    with pytest.raises(SpoolError, match="cannot be read"):
        copy_value(text)


def peak_of(run: Callable[[], object]) -> int:
    """Return the most bytes that were taken at once."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_escapes_take_no_memory_each():
    text = rb"\"\\\n\u0001" * 100_000
    assert peak_of(lambda: copy_value(text)) < 6 * len(text)
    text = rb"\"\\\n" * 100_000
    assert peak_of(lambda: array_text([text])) < 6 * len(text)


def test_no_array_is_made_of_what_is_too_big_for_one():
    changes = read(TABLE, [line("I", {"id": 1, "note": '"' * (5 << 20), "body": "y"})])
    net = net_of(TABLE, changes)
    assert isinstance(net, KeyedNet)
    assert peak_of(lambda: array_statements(TABLE, net)) < 1 << 20


def test_each_kind_of_change_is_a_statement():
    found = statements(
        TABLE,
        line("U", {"id": 1, "note": "x", "body": "y"}, {"id": 1}),
        # Its body is unchanged and stored out of line.
        line("U", {"id": 2, "note": "z"}, {"id": 2}),
        line("I", {"id": 3, "note": None, "body": "new"}),
        line("D", None, {"id": 4}),
        line("D", None, {"id": 5}),
    )
    assert found is not None
    shown = [
        (statement.query.split()[0], [array.text for array in statement.arrays], count)
        for statement in found
        for count in [statement.expected_count]
    ]
    assert shown == [
        (b"delete", [b'{"4","5"}'], 2),
        (b"update", [b'{"1"}', b'{"x"}', b'{"y"}'], 1),
        (b"update", [b'{"2"}', b'{"z"}'], 1),
        (b"insert", [b'{"3"}', b"{NULL}", b'{"new"}'], None),
    ]


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        (TABLE, [line("U", {"id": 9, "note": "x", "body": "y"}, {"id": 1})]),
        (
            TABLE,
            [line("I", {"id": n, "note": "x", "body": "y"}) for n in range(FEW_ROWS + 1)],
        ),
        (TABLE, [line("I", {"id": 1, "note": "x" * (5 << 20), "body": "y"})]),
        (
            shape(sendable("id", "integer"), column("note"), key=("id",)),
            [line("I", {"id": 1, "note": "x"})],
        ),
        # UPDATE cannot set it, and has nothing else to set.
        (
            shape(
                sendable("id", "integer"),
                replace(sendable("n", "integer"), is_identity_always=True),
                key=("id",),
            ),
            [line("U", {"id": 1, "n": 1}, {"id": 1})],
        ),
        (
            shape(sendable("id", "integer"), key=("id",)),
            [line("U", {"id": 1}, {"id": 1})],
        ),
    ],
    ids=["move", "many", "big", "type without array", "identity", "all key"],
)
def test_what_arrays_cannot_do_is_staged(table, lines):
    assert statements(table, *lines) is None


def test_statements_do_not_outlive_the_table_they_were_made_for():
    table = shape(*TABLE.columns, key=("id",))
    assert statements(table, line("I", {"id": 1, "note": "x", "body": "y"}))
    known = ref(table)
    del table
    assert known() is None
