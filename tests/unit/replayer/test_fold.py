"""Net changes: folded and applied at once they are the same as one by one."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.changes import INSERT
from pgrepl.errors import SpoolError
from pgrepl.replayer.shard.fold import KeyedNet, MultisetNet, fold, fold_multiset
from pgrepl.replayer.shard.merging.staging import last_state
from tests.support.examples import examples
from tests.support.messages.replay_lines import column, line, read, shape

Row = dict[str, Any]

KEYED = shape(
    column("note"), column("id", "integer"), column("body"), column("kind"), key=("id", "kind")
)
BAG = shape(column("a", "integer"), column("b"))
TEXTS = ["", "x", 'q"', "a\\b", "\\N", "\n", "\x01é", "null", "},{"]


class Source:
    """A table with a key that changes at random, and tells it as wal2json does."""

    def __init__(self, dice: random.Random, *, identity_full: bool) -> None:
        self.dice = dice
        self.identity_full = identity_full
        self.rows: dict[tuple[int, str], Row] = {}
        for number in range(4):
            row = self.new_row((number, "a"))
            self.rows[number, "a"] = row
        self.lines: list[bytes] = []

    def new_row(self, key: tuple[int, str]) -> Row:
        note = self.dice.choice([None, *TEXTS])
        return {"note": note, "id": key[0], "body": self.dice.choice(TEXTS), "kind": key[1]}

    def free_key(self) -> tuple[int, str] | None:
        key = self.dice.randrange(6), self.dice.choice("ab")
        return None if key in self.rows else key

    def identity(self, row: Row) -> Row:
        return dict(row) if self.identity_full else {"id": row["id"], "kind": row["kind"]}

    def step(self) -> None:
        kind = self.dice.choice(["insert", "update", "update", "move", "delete"])
        free = self.free_key()
        if kind == "insert" and free is not None:
            self.rows[free] = self.new_row(free)
            self.lines.append(line("I", self.rows[free]))
        elif self.rows and kind != "insert":
            old_key = self.dice.choice(sorted(self.rows))
            old = self.rows.pop(old_key)
            if kind == "delete":
                self.lines.append(line("D", None, self.identity(old)))
                return
            key = free if kind == "move" and free is not None else old_key
            new = {**old, "id": key[0], "kind": key[1], "note": self.dice.choice(TEXTS)}
            printed = dict(new)
            if self.dice.random() < 0.5:
                new["body"] = printed["body"] = self.dice.choice(TEXTS)
            else:
                # Unchanged and out of line: not printed.
                del printed["body"]
            self.rows[key] = new
            self.lines.append(line("U", printed, self.identity(old)))


def text_of(value: bytes) -> str | None:
    """Read a value as COPY does."""
    if value == rb"\N":
        return None
    escapes = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}
    found = bytearray()
    at = 0
    while at < len(value):
        if value[at : at + 1] == b"\\":
            at += 1
            found += escapes.get(value[at : at + 1], value[at : at + 1])
        else:
            found += value[at : at + 1]
        at += 1
    return found.decode()


def apply_net(rows: dict[tuple[int, str], Row], net: KeyedNet) -> dict[tuple[int, str], Row]:
    """Do what the set-based statements do: delete by old keys, then write the last states."""

    def key_of(key: Any) -> tuple[int, str]:
        values = dict(zip(net.key, key, strict=True))
        return int(values["id"]), str(text_of(values["kind"]))

    before = dict(rows)
    for key in net.removed:
        del rows[key_of(key)]
    for state in net.rows.values():
        if state.old_key is not None:
            del rows[key_of(state.old_key)]
    for key, state in net.rows.items():
        columns, values = last_state(state, KEYED.carried, net.key, key)
        row = dict(zip(KEYED.carried, values, strict=True))
        written = {name: text_of(row[name]) for name in columns}
        old = {} if state.old_key is None else before[key_of(state.old_key)]
        assert key_of(key) not in rows
        rows[key_of(key)] = {**old, **written, "id": int(row["id"])}
    return rows


@examples(75)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 40), identity_full=st.booleans())
def test_net_change_of_a_keyed_table_is_all_its_changes(seed, steps, identity_full):
    source = Source(random.Random(seed), identity_full=identity_full)
    before = {key: dict(row) for key, row in source.rows.items()}
    for _ in range(steps):
        source.step()
    changes = read(KEYED, source.lines)
    assert changes.count == len(source.lines)
    if all(run.actions == {INSERT} for run in changes.runs):
        return
    net = fold(changes.runs)
    assert isinstance(net, KeyedNet)
    assert apply_net(before, net) == source.rows


@examples(25)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 30))
def test_net_change_of_a_table_without_key_is_a_count_of_each_row(seed, steps):
    dice = random.Random(seed)
    rows: list[tuple[int, str | None]] = [(dice.randrange(2), dice.choice(TEXTS)) for _ in range(5)]
    expected = Counter(rows)
    lines = []
    for _ in range(steps):
        new = (dice.randrange(2), dice.choice([None, *TEXTS]))
        kind = dice.choice("IUD") if rows else "I"
        old = rows.pop(dice.randrange(len(rows))) if kind != "I" else None
        identity = None if old is None else {"a": old[0], "b": old[1]}
        if kind != "D":
            rows.append(new)
        printed = None if kind == "D" else {"a": new[0], "b": new[1]}
        lines.append(line(kind, printed, identity))
    net = fold_multiset(read(BAG, lines).runs)
    assert isinstance(net, MultisetNet)
    for row, count in net.counts.items():
        values = dict(zip(net.columns, row, strict=True))
        expected[int(values["a"]), text_of(values["b"])] += count
    assert +expected == Counter(rows)
    assert all(count >= 0 for count in expected.values())


def test_update_without_a_column_keeps_what_an_earlier_change_set():
    full = {"note": "n", "id": 1, "body": "first", "kind": "a"}
    open_body = {"note": "m", "id": 1, "kind": "a"}
    lines = [line("I", full), line("U", open_body, {"id": 1, "kind": "a"})]
    net = fold(read(KEYED, lines).runs)
    assert isinstance(net, KeyedNet)
    ((key, state),) = net.rows.items()
    assert state.old_key is None
    assert last_state(state, KEYED.carried, net.key, key) == (
        ("note", "id", "body", "kind"),
        [b"m", b"1", b"first", b"a"],
    )


def test_row_that_comes_and_goes_leaves_nothing():
    row = {"note": "n", "id": 9, "body": "b", "kind": "a"}
    net = fold(read(KEYED, [line("I", row), line("D", None, {"id": 9, "kind": "a"})]).runs)
    assert isinstance(net, KeyedNet)
    assert (net.rows, list(net.removed)) == ({}, [])


def test_two_rows_with_one_key_are_no_history_of_a_table():
    row = {"note": "n", "id": 9, "body": "b", "kind": "a"}
    update = line("U", row, {"id": 8, "kind": "a"})
    with pytest.raises(SpoolError, match="two rows of a table have the same key"):
        fold(read(KEYED, [line("I", row), update]).runs)


def test_key_of_the_target_is_read_out_of_a_whole_row():
    source = Source(random.Random(1), identity_full=True)
    while len(source.lines) < 5:
        source.step()
    net = fold(read(KEYED, source.lines).runs)
    assert isinstance(net, KeyedNet)
    assert net.key == ("id", "kind")
