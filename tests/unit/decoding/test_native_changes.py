"""The compiled core reads what Python reads, and refuses what Python refuses."""

from __future__ import annotations

import random
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl import native as native_package
from pgrepl.decoding.changes import ColumnMissing
from pgrepl.decoding.pgoutput import PgoutputPayload, by_table
from pgrepl.decoding.pgoutput.framing import pack
from pgrepl.decoding.shape import Column, Shape
from pgrepl.errors import SpoolError
from pgrepl.native import native
from tests.support.examples import examples
from tests.support.messages.net_changes import describe
from tests.support.messages.tuples import UNCHANGED, begin, change, relation

TEXTS = ["", "x", "unt", "\\", "\\N", "a\tb\n\r", "t" * 256, "ü", "t\1\2\3"]
#: Columns and key of tables, the key first and elsewhere.
TABLES = {
    "first": (("id", "a", "b"), ("id",)),
    "second": (("a", "id", "b"), ("id",)),
    "pair": (("x", "y", "a", "b"), ("x", "y")),
    "whole": (("a", "b"), ("a", "b")),
    "single": (("id",), ("id",)),
}


def make_shape(table):
    columns, key = TABLES[table]
    made = [Column(n, "text", False, is_identity_always=False, staging_type=None) for n in columns]
    return Shape("target", table, "r", made, () if key == columns else key)


SHAPES = {table: make_shape(table) for table in TABLES}


class Destination:
    start = None

    def __init__(self, name):
        self.is_applied = name != "parked"
        self.shape = SHAPES.get(name)


def row_of(dice, table, key, *, may_skip):
    columns, keys = TABLES[table]
    if keys == columns:
        return [dice.choice(TEXTS) for _ in columns]

    def value():
        if may_skip and dice.random() < 0.1:
            return UNCHANGED
        return None if dice.random() < 0.2 else dice.choice(TEXTS)

    return [f"{key}" if name in keys else value() for name in columns]


def key_of(table, key):
    columns, keys = TABLES[table]
    return [f"{key}" if name in keys else None for name in columns]


def make_messages(dice, tables, count, *, may_repeat=True):
    """Make what a source might send: changes of rows that are there, of several tables."""
    messages = [begin(1), *(relation(table, *TABLES[table]) for table in tables)]
    fresh = iter(range(100, 1000))
    there = {table: set(range(5)) for table in tables}
    for _ in range(count):
        table = dice.choice(tables)
        kind, rows = dice.choice("IUUUMD"), there[table]
        if dice.random() < 0.1:
            messages.append(begin(dice.randrange(9)))
        if dice.random() < 0.05:
            messages.append(relation(table, *TABLES[table]))
        key = next(fresh) if kind == "I" or not rows else dice.choice(sorted(rows))
        if kind == "I" or key not in rows:
            rows.add(key)
            messages.append(change("I", table, row_of(dice, table, key, may_skip=False)))
            continue
        if kind != "U" or not may_repeat:
            rows.discard(key)
        if kind == "U":
            messages.append(change("U", table, row_of(dice, table, key, may_skip=True)))
        elif kind == "M":
            new = row_of(dice, table, next(fresh), may_skip=False)
            messages.append(change("U", table, new, key=key_of(table, key)))
        else:
            messages.append(change("D", table, old=key_of(table, key)))
    return messages


def group(core, payload, count):
    """Return what is read of a payload, or what kind of error it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_table, "native", core)
        grouped = PgoutputPayload("UTF8").group_by_table(lambda name: Destination(name[1]))
        try:
            grouped.take_payload(payload, count, 0)
            read = {name: describe(changes) for name, changes in grouped.changes.items()}
        except (SpoolError, ColumnMissing) as exc:
            # The second when a corrupted description says that the key changed.
            return type(exc)
    return read, sorted(grouped.ignored)


def count_of(messages):
    return sum(message[:1] in (b"I", b"U", b"D") for message in messages)


pytestmark = pytest.mark.skipif(native is None, reason="nothing is compiled here")


@examples(75)
@given(st.integers(0, 1 << 30), st.lists(st.sampled_from([*TABLES]), min_size=1, unique=True))
def test_same_changes_are_read(seed, tables):
    dice = random.Random(seed)
    messages = make_messages(dice, tables, dice.randrange(60))
    payload = pack(messages)
    read = group(native, payload, count_of(messages))
    assert not isinstance(read, type)
    assert read == group(None, payload, count_of(messages))


@examples(125)
@given(st.integers(0, 1 << 30), st.data())
def test_damaged_payload_is_refused_by_both_or_read_alike(seed, data):
    dice = random.Random(seed)
    messages = make_messages(dice, ["first", "pair"], dice.randrange(1, 8), may_repeat=False)
    payload = bytearray(pack(messages))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del payload[data.draw(st.integers(0, len(payload) - 1)) :]
    read = {repr(group(core, bytes(payload), count_of(messages))) for core in (native, None)}
    assert len(read) == 1


@examples(75)
@given(st.binary(max_size=80), st.integers(0, 5))
def test_any_bytes_are_refused_or_read_alike(noise, count):
    for payload in (noise, struct.pack("!II", 1, len(noise)) + noise):
        read = {repr(group(core, payload, count)) for core in (native, None)}
        assert len(read) == 1


def test_tables_that_are_parked_are_named_and_not_read():
    messages = [begin(1), relation("parked"), change("I", "parked", ["1", "x"])]
    assert group(native, pack(messages), 1) == ({}, [("public", "parked")])


def test_table_whose_columns_are_not_on_the_target_has_a_problem():
    columns = ("id", "a", "b", "c")
    messages = [begin(1), relation("first", columns), change("I", "first", list("1abc"))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_table, "native", native)
        grouped = PgoutputPayload("UTF8").group_by_table(lambda name: Destination(name[1]))
        grouped.take_payload(pack(messages), 1, 0)
    assert 'no column "c"' in str(grouped.changes["public", "first"].problem)


@pytest.mark.parametrize(
    ("places", "size", "new_places", "old_places"),
    [
        (struct.pack("=II", 0, 99), 2, [0, 1], [0]),
        (struct.pack("=II", 1 << 31, 1 << 31), 2, [0, 1], [0]),
        (struct.pack("=II", 0, 6), -1, [], []),
        (struct.pack("=II", 0, 6), 1 << 30, [], []),
        (struct.pack("=II", 0, 6), 2, [0, 2], []),
        (struct.pack("=II", 0, 6), 2, [0, 1, 0], []),
        (struct.pack("=II", 0, 6), 2, [0], [-1]),
    ],
)
def test_what_is_not_there_is_not_looked_at(places, size, new_places, old_places):
    assert native is not None
    with pytest.raises(IndexError):
        native.read_changes(b"I12345", places, size, new_places, old_places)


@pytest.mark.parametrize(
    ("pieces", "size", "key_size"),
    [
        ([(b"U12345N", struct.pack("=II", 0, 99))], 2, 1),
        ([(b"U12345N", struct.pack("=II", 1 << 31, 1 << 31))], 2, 1),
        ([], 2, 3),
        ([], 2, 0),
        ([], 1 << 30, 1),
    ],
)
def test_updates_that_are_not_there_are_not_looked_at(pieces, size, key_size):
    assert native is not None
    with pytest.raises(IndexError):
        native.last_updates(pieces, size, key_size)


@examples(50)
@given(st.integers(0, 1 << 30), st.sampled_from([*TABLES]), st.booleans())
def test_payloads_taken_together_leave_the_rows_that_each_of_them_leaves(seed, table, condenses):
    dice = random.Random(seed)
    messages = make_messages(dice, [table], dice.randrange(80))
    changes = [message for message in messages if message[:1] in (b"I", b"U", b"D")]
    cuts = sorted(dice.randrange(len(changes) + 1) for _ in range(3))
    pieces = [changes[a:b] for a, b in pairwise([0, *cuts, len(changes)])]
    described = relation(table, *TABLES[table])
    found = []
    for core in (native, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(by_table, "native", core)
            grouped = PgoutputPayload("UTF8").group_by_table(lambda name: Destination(name[1]))
            for piece in pieces:
                grouped.take_payload(pack([described, *piece]), len(piece), 0)
                if condenses:
                    left = grouped.condense()
                    assert left <= len(changes)
            found.append({name: describe(own) for name, own in grouped.changes.items()})
    assert found[0] == found[1]


def test_rows_of_many_payloads_are_read_once():
    updates = [change("U", "first", [f"{n % 3}", "x", f"{n}"]) for n in range(12)]
    grouped = PgoutputPayload("UTF8").group_by_table(lambda name: Destination(name[1]))
    for n in range(0, 12, 4):
        grouped.take_payload(pack([relation("first", *TABLES["first"]), *updates[n : n + 4]]), 4, 0)
    assert grouped.condense() == 3
    (own,) = grouped.changes.values()
    assert own.count == 12
    assert [len(run.changes) for run in own.runs] == [3]


def test_module_of_another_version_is_not_used(monkeypatch):
    monkeypatch.setattr(native_package, "_VERSION", 0)
    assert native_package._load() is None


def test_python_is_used_when_that_is_asked_for(monkeypatch):
    monkeypatch.setenv("PGREPL_NATIVE", "off")
    assert native_package._load() is None
