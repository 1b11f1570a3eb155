"""What is compiled reads wal2json's lines as Python does, and refuses what Python refuses."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.changes import ColumnMissing
from pgrepl.decoding.shape import ValueKind
from pgrepl.decoding.wal2json import Wal2JsonPayload, table_changes
from pgrepl.errors import SpoolError
from pgrepl.native import native
from tests.support.examples import examples
from tests.support.messages.lines import begin
from tests.support.messages.net_changes import describe
from tests.support.messages.replay_lines import column, line, shape

TEXTS = [
    "",
    "x",
    "\\",
    "\\N",
    "N",
    "a\tb\n\r",
    'a"b',
    '"},{"name":"id","value":1}',
    "\x01",
    "ü",
    "}]}",
]
NUMBERS = [0, -1, 17, "17", "-3"]
FLOATS = [1.5, "NaN", "-Infinity", 3]
#: Columns and key of tables, the key first and elsewhere.
TABLES = {
    "first": (("id", "a", "f"), ("id",)),
    "second": (("a", "id", "yes"), ("id",)),
    "pair": (("x", "y", "a", "b"), ("x", "y")),
    "whole": (("a", "c"), ()),
    "computed": (("id", "g", "a"), ("id",)),
    "single": (("id",), ("id",)),
    'odd "name"': (("id", 'odd "column"'), ("id",)),
}
KINDS: Mapping[str, ValueKind] = {"id": "integer", "f": "float", "yes": "boolean", "b": "bytea"}


def make_shape(table):
    columns, key = TABLES[table]
    made = [column(n, KINDS.get(n, "text"), is_generated=n == "g") for n in columns]
    return shape(*made, key=key)


SHAPES = {table: make_shape(table) for table in TABLES}


class Destination:
    start = None

    def __init__(self, name):
        self.is_applied = name != "parked"
        self.shape = SHAPES.get(name)


def value_of(dice, name):
    if dice.random() < 0.2:
        return None
    return dice.choice(
        {
            "id": NUMBERS,
            "f": FLOATS,
            "yes": [True, False],
            "b": ["", "00ff"],
        }.get(name, TEXTS)
    )


def key_of(table, key):
    return {name: f"{key}" if name in {"x", "y"} else key for name in TABLES[table][1]}


def row_of(dice, table, key, *, may_skip):
    columns, keys = TABLES[table]
    row = {name: value_of(dice, name) for name in columns if name not in keys}
    if may_skip and dice.random() < 0.1:
        row = {name: value for name, value in row.items() if dice.random() < 0.5}
    found = {**key_of(table, key), **row}
    return {name: found[name] for name in columns if name in found}


def make_lines(dice, tables, count, kinds="IUUUMD"):
    """Make what a source might send: changes of rows that are there, of several tables."""
    lines = [begin(1)]
    fresh = iter(range(100, 1000))
    there = {table: set(range(5)) for table in tables}
    for _ in range(count):
        table = dice.choice(tables)
        if dice.random() < 0.1:
            lines.append(begin(dice.randrange(9)))
        names = ("public", table)
        if not TABLES[table][1]:
            # Without a key the whole old row is sent.
            old = row_of(dice, table, 0, may_skip=False)
            new = row_of(dice, table, 0, may_skip=False)
            kind = dice.choice("IUD")
            lines.append(
                line(kind, None if kind == "D" else new, None if kind == "I" else old, names=names)
            )
            continue
        kind, rows = dice.choice(kinds), there[table]
        key = next(fresh) if kind == "I" or not rows else dice.choice(sorted(rows))
        old = key_of(table, key)
        if kind == "I" or key not in rows:
            rows.add(key)
            lines.append(line("I", row_of(dice, table, key, may_skip=False), names=names))
        elif kind == "U":
            lines.append(line("U", row_of(dice, table, key, may_skip=True), old, names=names))
        elif kind == "M":
            rows.discard(key)
            lines.append(
                line("U", row_of(dice, table, next(fresh), may_skip=False), old, names=names)
            )
        else:
            rows.discard(key)
            lines.append(line("D", None, old, names=names))
    return lines


def group(core, payloads):
    """Return what is read of payloads with their counts, or what kind of error it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_changes, "native", core)
        grouped = Wal2JsonPayload("UTF8").group_by_table(lambda name: Destination(name[1]))
        try:
            for payload, count in payloads:
                grouped.take_payload(payload, count, 0)
            read = {name: describe(changes, values_of) for name, changes in grouped.changes.items()}
        except (SpoolError, ColumnMissing) as exc:
            return type(exc)
    return read, sorted(grouped.ignored)


def values_of(layout, change):
    return layout.values(change)


def payload_of(lines):
    return b"\n".join(lines), sum(not message.startswith(b'{"action":"B"') for message in lines)


pytestmark = pytest.mark.skipif(native is None, reason="nothing is compiled here")


@examples(75)
@given(st.integers(0, 1 << 30), st.lists(st.sampled_from([*TABLES]), min_size=1, unique=True))
def test_same_changes_are_read(seed, tables):
    dice = random.Random(seed)
    kinds = dice.choice(["IUUUMD", "U", "UUUM", "I"])
    lines = make_lines(dice, tables, dice.randrange(60), kinds)
    cut = dice.randrange(len(lines) + 1)
    payloads = [payload_of(lines[:cut] or [begin(1)]), payload_of([begin(2), *lines[cut:]])]
    read = group(native, payloads)
    assert not isinstance(read, type)
    assert read == group(None, payloads)


@examples(125)
@given(st.integers(0, 1 << 30), st.data())
def test_corrupted_payload_is_refused_by_both_or_read_alike(seed, data):
    dice = random.Random(seed)
    payload, count = payload_of(make_lines(dice, ["first", "pair"], dice.randrange(1, 8)))
    corrupted = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(corrupted) - 1))
        corrupted[place] = data.draw(st.one_of(st.sampled_from(b'"\\}],N0\n'), st.integers(0, 255)))
    if data.draw(st.booleans()):
        del corrupted[data.draw(st.integers(0, len(corrupted) - 1)) :]
    read = {repr(group(core, [(bytes(corrupted), count)])) for core in (native, None)}
    assert len(read) == 1


def test_of_updates_that_leave_the_key_alone_the_last_is_read():
    lines = [
        begin(1),
        *(line("U", {"id": n % 2, "a": f"{n}", "f": n}, {"id": n % 2}) for n in range(9)),
    ]
    lines = [text.replace(b'"table":"t"', b'"table":"first"') for text in lines]
    grouped = Wal2JsonPayload("UTF8").group_by_table(lambda name: Destination(name[1]))
    payload, count = payload_of(lines)
    grouped.take_payload(payload, count, 0)
    changes = grouped.changes["public", "first"]
    assert changes.count == 9
    (run,) = changes.runs
    assert run.changes == [
        (b"U", b"0", b"8", b"8", b"0"),
        (b"U", b"1", b"7", b"7", b"1"),
    ]


@pytest.mark.parametrize(
    ("new", "old", "key", "error"),
    [
        ([], (), (), TypeError),
        (((b"x", "b", True),), (), ((0, 1),), IndexError),
        (((b"x", "b", True),), (), ((-1, 0),), IndexError),
        (((b"x", "b"),), (), (), TypeError),
        (((b"x", "b", True),) * 2049, (), (), TypeError),
        ((), (), ((0, 0),) * 33, TypeError),
    ],
)
def test_what_is_not_there_is_not_looked_at(new, old, key, error):
    assert native is not None
    with pytest.raises(error):
        native.read_lines(b"{}", b"", new, old, key)
