"""Changes that are read together are what they are one by one."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.pgoutput import PgoutputPayload, table_changes
from pgrepl.decoding.pgoutput.framing import pack
from pgrepl.decoding.shape import Column, Shape
from pgrepl.errors import SpoolError
from pgrepl.replayer.shard.fold import KeyedNet, net_of
from pgrepl.replayer.shard.merging.staging import last_state
from tests.support.examples import examples
from tests.support.messages.tuples import UNCHANGED, begin, change, relation

pytestmark = pytest.mark.usefixtures("core")

PGOUTPUT = PgoutputPayload("UTF8")
COLUMNS = ("id", "a", "b")
#: Short and long, with what COPY escapes, with what looks like the beginning of a column.
TEXTS = ["", "x", "un", "tnu", "U", "\\", "\\N", "a\tb\n", "t" * 255, "long " * 60, "ü"]


def make_shape(generated=()):
    made = [
        Column(name, "text", name in generated, is_identity_always=False, staging_type=None)
        for name in COLUMNS
    ]
    return Shape("target", "t", "r", made, ("id",))


class Destination:
    is_applied = True
    start = None

    def __init__(self, shape):
        self.shape = shape


def make_stream(dice, kinds, texts):
    """Make changes of a few rows, as a source would send them."""
    rows: dict[str, bool] = dict.fromkeys("12345", True)
    messages = []

    def value(*, may_skip):
        if may_skip and dice.random() < 0.1:
            return UNCHANGED
        return None if dice.random() < 0.2 else dice.choice(texts)

    for _ in range(dice.randrange(1, 40)):
        kind = dice.choice(kinds)
        key = dice.choice("123456789")
        if kind == "I" and key not in rows:
            rows[key] = True
            messages.append(change("I", "t", [key, value(may_skip=False), value(may_skip=False)]))
        elif kind == "U" and key in rows:
            new = [key, value(may_skip=len(texts) > 3), value(may_skip=len(texts) > 3)]
            messages.append(change("U", "t", new))
        elif kind == "M" and key in rows and (to := dice.choice("123456789")) not in rows:
            rows[to] = rows.pop(key)
            messages.append(change("U", "t", [to, "m", None], key=[key, None, None]))
        elif kind == "D" and key in rows:
            del rows[key]
            messages.append(change("D", "t", key=[key, None, None]))
    return messages


def read(shape, *payloads):
    grouped = PGOUTPUT.group_by_table(lambda _: Destination(shape))
    for messages in payloads:
        grouped.take_payload(pack([begin(1), relation("t", COLUMNS), *messages]), len(messages), 3)
    changes = grouped.changes.get(("public", "t"))
    assert changes is None or changes.problem is None
    return changes


def net(shape, changes):
    """Return the last state of each row, and which were deleted."""
    found = net_of(shape, changes)
    assert isinstance(found, KeyedNet)
    rows = {
        tuple(values): (state.old_key, columns)
        for key, state in found.rows.items()
        for columns, values in [last_state(state, shape.carried, found.key, key)]
    }
    return rows, sorted(found.removed)


@examples(75)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from(["U", "I", "UUUUUI", "IUMD"]),
    st.sampled_from([["x"], ["x", "yy"], TEXTS]),
    st.sampled_from([(), ("b",)]),
)
def test_changes_read_together_are_those_read_one_by_one(seed, kinds, texts, generated):
    messages = make_stream(random.Random(seed), kinds, texts)
    shape = make_shape(generated)
    alone = read(shape, *([message] for message in messages))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_changes, "_MANY_MESSAGES", 1)
        together = read(shape, messages) if messages else None
    if alone is None or together is None:
        assert messages == []
        return
    assert together.count == alone.count == len(messages)
    assert net(shape, together) == net(shape, alone)


@examples(75)
@given(st.integers(0, 1 << 30), st.data())
def test_bytes_that_are_not_a_payload_are_an_error_and_nothing_worse(seed, data):
    messages = make_stream(random.Random(seed), "U", ["x", "yy"])
    payload = bytearray(pack([begin(1), relation("t", COLUMNS), *messages]))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    shape = make_shape()
    grouped = PGOUTPUT.group_by_table(lambda _: Destination(shape))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_changes, "_MANY_MESSAGES", 1)
        with suppress(SpoolError):
            grouped.take_payload(bytes(payload), len(messages), 3)
