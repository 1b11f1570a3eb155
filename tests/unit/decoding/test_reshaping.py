"""Updates that become inserts or deletes, for rows that come into a filter or leave it."""

from __future__ import annotations

import pytest

from pgrepl.decoding.pgoutput import reshaping as pgoutput
from pgrepl.decoding.pgoutput import writing
from pgrepl.decoding.pgoutput.grammar import UNCHANGED
from pgrepl.decoding.wal2json import reshaping as wal2json

COLUMNS = ("id", "note", "big")
HEAD = (
    b'{"action":"%s","xid":7,"timestamp":"2024-01-01 00:00:00+00","lsn":"0/1","schema":"a",'
    b'"table":"b",'
)


def entries(**values: bytes) -> bytes:
    return b",".join(b'{"name":"%s","value":%s}' % (n.encode(), v) for n, v in values.items())


def update(old: bytes, new: bytes) -> bytes:
    return HEAD % b"U" + b'"columns":[' + new + b'],"identity":[' + old + b"]}"


def test_lines_carry_old_and_new_rows():
    line = update(entries(id=b"1"), entries(id=b"2", note=b'"a\\"b\\u001f\xc3"', big=b"null"))
    row = wal2json.read_row(line, "utf-8")
    assert row.old == {"id": b"1"}
    assert row.new == {"id": b"2", "note": b'a"b\x1f\xc3', "big": None}


def test_line_of_an_update_becomes_a_delete_or_an_insert():
    new = entries(id=b"2", note=b'"n"')
    line = update(entries(id=b"1"), new)
    assert wal2json.to_delete(line) == HEAD % b"D" + b'"identity":[' + entries(id=b"1") + b"]}"
    assert wal2json.to_insert(line, ("id", "note"), "utf-8") == (
        HEAD % b"I" + b'"columns":[' + new + b"]}"
    )
    assert wal2json.to_insert(line, COLUMNS, "utf-8") is None
    whole = update(entries(id=b"1", note=b'"o"', big=b'"o"'), new)
    assert wal2json.to_insert(whole, COLUMNS, "utf-8") == (
        HEAD % b"I" + b'"columns":[' + entries(id=b"2", note=b'"n"', big=b'"o"') + b"]}"
    )


@pytest.mark.parametrize(
    ("change", "identity", "old", "new"),
    [
        (writing.insert(9, [b"1", None, b"b"]), ("id",), None, {"note": None, "big": b"b"}),
        # The key is unchanged, and is not sent twice.
        (writing.update(9, [b"1", b"n", UNCHANGED]), ("id",), {"id": b"1"}, {"note": b"n"}),
        (
            writing.update(9, [b"2", b"n", b"b"], key=[b"1", None, None]),
            ("id",),
            {"id": b"1"},
            {"note": b"n", "big": b"b"},
        ),
        (
            writing.update(9, [b"2", b"n", UNCHANGED], old=[b"1", None, b"b"]),
            COLUMNS,
            {"id": b"1", "note": None, "big": b"b"},
            {"note": b"n"},
        ),
        (writing.delete(9, key=[b"1", None, None]), ("id",), {"id": b"1"}, None),
    ],
)
def test_messages_carry_what_the_identity_has_of_old_rows(change, identity, old, new):
    row = pgoutput.read_row(change, COLUMNS, identity)
    assert row.old == old
    assert (row.new is None) == (new is None)
    if row.new is not None and new is not None:
        assert {name: value for name, value in row.new.items() if name != "id"} == new


def test_message_of_an_update_becomes_a_delete_or_an_insert():
    keyed = writing.update(9, [b"2", b"n", b"b"], key=[b"1", None, None])
    assert pgoutput.to_delete(keyed) == writing.delete(9, key=[b"1", None, None])
    assert pgoutput.to_insert(keyed) == writing.insert(9, [b"2", b"n", b"b"])
    toasted = writing.update(9, [b"2", b"n", UNCHANGED], key=[b"1", None, None])
    assert pgoutput.to_insert(toasted) is None
    whole = writing.update(9, [b"2", b"n", UNCHANGED], old=[b"1", b"o", b"b"])
    assert pgoutput.to_delete(whole) == writing.delete(9, old=[b"1", b"o", b"b"])
    assert pgoutput.to_insert(whole) == writing.insert(9, [b"2", b"n", b"b"])
