"""Messages of pgoutput become segments: each payload has the descriptions that it needs."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pgrepl.decoding.pgoutput import PgoutputStream
from pgrepl.decoding.pgoutput.framing import unpack
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.slot.protocol import Framing
from tests.support.messages.assembling import make_assembler
from tests.support.messages.tuples import (
    begin,
    change,
    commit,
    frame,
    readable,
    relation,
    transaction,
    truncate,
)

A, B, G = (relation(name) for name in "abg")


pytestmark = pytest.mark.usefixtures("core")


def make(limit_bytes=1 << 20, **options):
    return make_assembler(
        PgoutputStream(), ["bi.*"], limit_bytes=limit_bytes, has_special_values=True, **options
    )


def feed(assembler, *frames):
    for one in frames:
        assembler.take([one])


def payloads(assembler):
    return [unpack(b"".join(part.payload)) for batch in assembler.ready for part in batch.parts]


def insert(table, number=1):
    return change("I", table, [str(number), "x"])


def test_each_payload_has_the_description_of_its_table_once():
    assembler = make()
    feed(assembler, *transaction(0x100, A, insert("a"), insert("a", 2)))
    feed(assembler, *transaction(0x200, insert("a", 3)))
    assembler.flush()
    feed(assembler, *transaction(0x300, insert("a", 4)))
    assembler.flush()
    assert payloads(assembler) == [
        [begin(0x100), A, insert("a"), insert("a", 2), begin(0x200), insert("a", 3)],
        [begin(0x300), A, insert("a", 4)],
    ]
    first, second = (batch.parts[0] for batch in assembler.ready)
    assert (first.change_count, second.change_count) == (3, 1)
    assert (first.first_lsn, first.last_lsn) == (Lsn(0x100), Lsn(0x230))


def test_description_that_did_not_change_is_not_repeated():
    assembler = make()
    feed(assembler, *transaction(0x100, A, insert("a"), A, insert("a", 2)))
    assembler.flush()
    assert payloads(assembler) == [[begin(0x100), A, insert("a"), insert("a", 2)]]


def test_description_that_changed_stands_before_the_change_that_needs_it():
    wider = relation("a", ["id", "note", "more"])
    wide = change("I", "a", ["2", "x", "y"])
    assembler = make()
    feed(assembler, *transaction(0x100, A, insert("a"), wider, wide, A, insert("a", 3)))
    assembler.flush()
    assert payloads(assembler) == [
        [begin(0x100), A, insert("a"), wider, wide, A, insert("a", 3)],
    ]
    assert assembler.ready[0].parts[0].change_count == 3


def test_transaction_in_hand_keeps_what_was_described_before_it():
    assembler = make()
    feed(assembler, *transaction(0x100, A, insert("a")), frame(begin(0x200)))
    feed(assembler, frame(insert("a", 2)))
    assembler.flush()
    feed(assembler, frame(insert("a", 3)), frame(commit(0x200), 0x230))
    assembler.flush()
    assert payloads(assembler)[1] == [begin(0x200), A, insert("a", 2), insert("a", 3)]


def test_truncate_of_several_tables_is_one_for_each_that_is_selected():
    other = relation("x", schema="bi")
    assembler = make()
    feed(
        assembler,
        *transaction(0x100, A, insert("a"), B, G, other, truncate("b", "x", "g"), insert("a", 2)),
    )
    (serial,) = payloads(assembler)
    assert serial == [
        begin(0x100),
        A,
        insert("a"),
        B,
        truncate("b"),
        G,
        truncate("g"),
        insert("a", 2),
    ]
    (part,) = assembler.ready[0].parts
    assert (part.kind, part.change_count, part.last_lsn) == ("serial", 4, Lsn(0x130))


def test_truncate_of_tables_that_are_not_selected_is_nothing():
    assembler = make()
    feed(assembler, *transaction(0x100, relation("x", schema="bi"), truncate("x")))
    assert assembler.is_settled
    assert assembler.received == 0x130


def test_parts_of_a_big_transaction_can_be_read_alone_and_the_last_knows_the_end():
    assembler = make(limit_bytes=400)
    rows = [change("I", "a", [str(number), "x" * 150]) for number in range(6)]
    feed(assembler, *transaction(0x100, A, *rows))
    found = payloads(assembler)
    assert len(found) > 2
    assert all(messages[:2] == [begin(0x100), A] for messages in found)
    parts = [part for batch in assembler.ready for part in batch.parts]
    assert [part.last_lsn for part in parts] == [Lsn(0x100)] * (len(parts) - 1) + [Lsn(0x130)]


def test_table_that_gets_another_name_is_routed_by_it():
    renamed = relation("z", schema="bi", oid=int.from_bytes(A[1:5], "big"))
    assembler = make()
    feed(assembler, *transaction(0x100, A, insert("a")), *transaction(0x200, renamed, insert("a")))
    assembler.flush()
    assert payloads(assembler) == [[begin(0x100), A, insert("a")]]


def test_messages_can_have_another_header():
    assembler = make()
    rows = [memoryview(bytes(18) + each) for each in (begin(0x100), A, insert("a"))]
    end = memoryview(bytes(6) + (0x130).to_bytes(8, "big") + bytes(4) + commit(0x100))
    assembler.take([*rows, end], Framing(18, slice(6, 14)))
    assembler.flush()
    assert payloads(assembler) == [[begin(0x100), A, insert("a")]]
    assert assembler.received == 0x130


def test_what_does_not_matter_is_not_taken():
    assembler = make()
    others = [b"Ytype", b"Oorigin", b"M" + bytes(20)]
    feed(assembler, frame(others[2]), *transaction(0x100, *others, A, insert("a"), others[2]))
    assembler.flush()
    assert payloads(assembler) == [[begin(0x100), A, insert("a")]]


@pytest.mark.parametrize(
    "frames",
    [
        [frame(insert("a"))],
        [frame(begin(0x100)), frame(insert("a"))],
        [frame(begin(0x100)), frame(truncate("a"))],
        [frame(begin(0x100)), frame(begin(0x200))],
        [frame(begin(0x100)), frame(commit(0x200), 0x230)],
        [frame(begin(0x100)), frame(commit(0x100, at=1), 0x130)],
        [frame(begin(0x100)[:-1])],
        [frame(commit(0x100), 0x130)],
        [frame(A[:-3])],
        [frame(begin(0x100)), frame(b"T\0")],
        [frame(b"S")],
        [frame(b"")],
    ],
)
def test_stream_out_of_order_is_refused(frames):
    with pytest.raises(SpoolError):
        feed(make(), *frames)


@given(st.sampled_from(["", "B", "C", "I", "T", "R", "X"]), st.binary(max_size=40))
def test_any_bytes_are_refused_and_nothing_else_is_raised(kind, rest):
    message = kind.encode() + b"\xff" + rest
    # Whatever its numbers are, a begin message is known by its length.
    assume(not PgoutputStream().is_begin(message))
    with pytest.raises(SpoolError):
        feed(make(), frame(message))


@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3)), max_size=6),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.integers(200, 3000),
    st.integers(1, 9),
    st.booleans(),
)
def test_every_change_leaves_once_with_the_description_that_it_came_with(
    transactions, limit_bytes, frame_count, has_flushes
):
    assembler = make(limit_bytes=limit_bytes)
    frames, expected = _make_frames(transactions)
    for start in range(0, len(frames), frame_count):
        assembler.take(frames[start : start + frame_count])
        if has_flushes:
            assembler.flush()
    assembler.flush()
    found: dict[bytes, list[tuple[bytes, bytes]]] = {}
    for messages in payloads(assembler):
        readable(messages)
        described_as: dict[bytes, bytes] = {}
        for message in messages:
            if message[:1] == b"R":
                described_as[message[1:5]] = message
            elif message[:1] == b"I":
                found.setdefault(message[1:5], []).append((described_as[message[1:5]], message))
    assert found == expected
    for part in (part for batch in assembler.ready for part in batch.parts):
        kinds = [message[:1] for message in unpack(b"".join(part.payload))]
        assert part.change_count == len(kinds) - kinds.count(b"B") - kinds.count(b"R")


def _make_frames(transactions):
    """Return frames, and by table the changes in them with what described it."""
    frames = []
    expected: dict[bytes, list[tuple[bytes, bytes]]] = {}
    number = 0
    for position, (tables, is_serial) in enumerate(transactions):
        messages = []
        for table, width in tables:
            number += 1
            described = relation(table, ["id", *(f"c{n}" for n in range(width))])
            made = change("I", table, [str(number)] * (width + 1))
            messages += [described, made]
            expected.setdefault(made[1:5], []).append((described, made))
        if is_serial:
            middle = len(messages) // 4 * 2
            messages[middle:middle] = [G, truncate("g")]
        frames += transaction(0x100 * (position + 1), *messages)
    return frames, expected
