"""Payloads of pgoutput's messages become changes of tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.changes import NULL
from pgrepl.decoding.pgoutput import PgoutputPayload, PgoutputStream
from pgrepl.decoding.pgoutput.framing import pack, pack_pieces, unpack
from pgrepl.decoding.shape import Column, Shape
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.store.tables.copy_start import CopyStart
from tests.support.messages.tuples import UNCHANGED, begin, change, commit, relation, truncate

pytestmark = pytest.mark.usefixtures("core")

PGOUTPUT = PgoutputPayload("UTF8")
T = ("public", "t")
COLUMNS = ("id", "note", "n")
DESCRIBED = relation("t", COLUMNS)


def make_shape(columns=COLUMNS, key=("id",), generated=()):
    made = [
        Column(name, "text", name in generated, is_identity_always=False, staging_type=None)
        for name in columns
    ]
    return Shape("target", "t", "r", made, tuple(key))


class Destination:
    def __init__(self, shape=None, *, is_applied=True, start=None):
        self.shape = shape or make_shape()
        self.is_applied = is_applied
        self.start = start


def group(*messages, destination=None, count=None):
    grouped = PGOUTPUT.group_by_table(lambda _: destination or Destination())
    found = sum(message[:1] not in (b"B", b"R") for message in messages)
    grouped.take_payload(pack(messages), found if count is None else count, 3)
    return grouped


def changes_of(*messages, shape=None):
    grouped = group(begin(1), *messages, destination=Destination(shape))
    (changes,) = grouped.changes.values()
    assert changes.problem is None
    return [(run.layout, one) for run in changes.runs for one in run.changes]


def test_insert_update_and_delete_are_of_one_layout():
    found = changes_of(
        DESCRIBED,
        change("I", "t", ["1", "one", None]),
        change("U", "t", ["1", "two", "2"]),
        change("U", "t", ["9", "two", "2"], key=["1", None, None]),
        change("D", "t", key=["9", None, None]),
    )
    assert len({id(layout) for layout, _ in found}) == 1
    assert found[0][0].is_full
    assert [one for _, one in found] == [
        (b"I", b"1", b"one", NULL),
        (b"U", b"1", b"two", b"2", b"1"),
        (b"U", b"9", b"two", b"2", b"1"),
        (b"D", b"", b"", b"", b"9"),
    ]


def test_unchanged_value_that_is_stored_out_of_line_is_not_in_the_layout():
    ((layout, one),) = changes_of(DESCRIBED, change("U", "t", ["1", UNCHANGED, "2"]))
    assert (layout.columns, layout.identity, layout.is_full) == (("id", "n"), ("id",), False)
    assert one == (b"U", b"1", b"2", b"1")


def test_key_that_is_stored_out_of_line_is_taken_from_the_old_row():
    ((layout, one),) = changes_of(
        DESCRIBED, change("U", "t", [UNCHANGED, "x", "2"], key=["long", None, None])
    )
    assert layout.new_key(("id",))(one) == b"long"


def test_whole_old_row_tells_rows_of_a_table_without_a_key():
    described = relation("t", COLUMNS, COLUMNS)
    shape = make_shape(key=())
    ((layout, one),) = changes_of(
        described, change("U", "t", ["1", UNCHANGED, "2"], old=["1", "long", "1"]), shape=shape
    )
    assert (layout.key, layout.identity) == ((), COLUMNS)
    assert one == (b"U", b"1", b"2", b"1", b"long", b"1")


def test_generated_column_of_the_target_is_not_missed():
    shape = make_shape((*COLUMNS, "sum"), generated=("sum",))
    ((layout, _),) = changes_of(DESCRIBED, change("U", "t", ["1", "a", "2"]), shape=shape)
    assert layout.is_full


texts = st.one_of(
    st.none(),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    st.sampled_from(["", "\\N", "\\", "t", "n", "tn", "a\tb", "a\nb", "a\rb"]),
    st.sampled_from(["x" * 255, "x" * 256]),
    st.text(st.sampled_from("nut"), min_size=100, max_size=300),
)


@given(st.lists(st.lists(texts, min_size=3, max_size=3), min_size=1, max_size=5))
def test_every_value_is_what_copy_takes(rows):
    messages = [change("I", "t", row) for row in rows]
    messages += [change("U", "t", row, old=row) for row in rows]
    for row, (_, one) in zip([*rows, *rows], changes_of(DESCRIBED, *messages), strict=True):
        assert [_unescaped(value) for value in one[1:4]] == row


def _unescaped(value):
    if value == NULL:
        return None
    text = value.decode()
    for escaped, meant in (("\\\\", "\0"), ("\\t", "\t"), ("\\n", "\n"), ("\\r", "\r")):
        text = text.replace(escaped, meant)
    assert not set(text) & set("\\") or value == NULL
    return text.replace("\0", "\\")


def test_oid_that_looks_like_a_column_is_an_oid():
    oid = int.from_bytes(b"t\0\0\0", "big")
    described = relation("t", COLUMNS, oid=oid)
    for row in (["1", None, "x"], ["1", "2", "3"], [None, None, None]):
        ((_, one),) = changes_of(described, change("I", "t", row, oid=oid))
        assert [_unescaped(value) for value in one[1:]] == row


def test_column_that_the_target_has_not_is_the_problem_of_its_table():
    grouped = group(
        begin(1),
        relation("t", ["id", "other"]),
        change("I", "t", ["1", "2"]),
        relation("u"),
        change("I", "u", ["1", "2"]),
    )
    assert 'no column "other"' in str(grouped.changes[T].problem)
    assert grouped.changes[T].count == 1
    assert grouped.changes["public", "u"].problem is None


def test_transactions_that_the_copy_contains_are_skipped():
    start = CopyStart(Lsn(100), None)
    grouped = group(
        begin(50),
        DESCRIBED,
        change("I", "t", ["1", "a", "b"]),
        begin(200),
        change("I", "t", ["2", "a", "b"]),
        destination=Destination(start=start),
    )
    (run,) = grouped.changes[T].runs
    assert run.changes == [(b"I", b"2", b"a", b"b")]


def test_changes_of_a_parked_table_are_named_and_not_read():
    grouped = group(
        begin(1),
        DESCRIBED,
        change("I", "t", ["1", "a", "b"]),
        destination=Destination(is_applied=False),
    )
    assert (grouped.changes, grouped.ignored) == ({}, [T])


@pytest.mark.parametrize(
    "messages",
    [
        (begin(1), change("I", "t", ["1", "a", "b"])),
        (begin(1), DESCRIBED, change("I", "t", ["1", "a"])),
        (begin(1), DESCRIBED, change("U", "t", ["1", "a"], key=["1", None])),
        (begin(1), DESCRIBED, change("U", "t", [UNCHANGED, "a", "b"])),
        (begin(1), DESCRIBED, change("I", "t", ["1", "a", "x" * 300])[:-200]),
        (begin(1), DESCRIBED[:-1], change("I", "t", ["1", "a", "b"])),
        (begin(1), DESCRIBED, truncate("t")),
        (b"\0",),
    ],
)
def test_payload_that_is_not_what_was_sent_is_corrupted(messages):
    with pytest.raises(SpoolError, match="corrupted"):
        _ = group(*messages).changes


def test_number_of_changes_is_checked():
    with pytest.raises(SpoolError, match="should have 2 changes, it has 1"):
        group(begin(1), DESCRIBED, change("I", "t", ["1", "a", "b"]), count=2)


@pytest.mark.parametrize("payload", [b"", b"\0\0\0\1", b"\0\0\0\1\0\0\0\2x", b"\0\0\0\1\0\0\0\0"])
def test_frame_that_does_not_fit_is_corrupted(payload):
    with pytest.raises(SpoolError, match="corrupted"):
        unpack(payload)


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1))
def test_messages_come_out_as_they_went_in(messages):
    assert unpack(pack(messages)) == messages
    assert b"".join(pack_pieces(messages)) == pack(messages)


def test_big_message_is_handed_on_and_not_copied():
    big = b"I" + bytes(2_000_000)
    assert pack_pieces([b"B", big])[2] is big


def test_changes_one_by_one_can_be_read_alone_and_joined_again():
    other, moved = relation("u"), relation("t", ["id", "more"])
    messages = [
        begin(50),
        DESCRIBED,
        change("I", "t", ["1", "a\\", None]),
        other,
        change("I", "u", ["7", "x"]),
        begin(200),
        moved,
        change("U", "t", ["2", "b"], key=["1", None]),
        truncate("u", options=2),
    ]
    split = PGOUTPUT.split(pack(messages))
    assert [PGOUTPUT.is_begin(message) for message in split] == [True, False, False, True] + (
        [False] * 2
    )
    assert PGOUTPUT.join(split) == pack(messages)
    assert [PGOUTPUT.names_of(split[n])[1] for n in (1, 2, 4, 5)] == ["t", "u", "t", "u"]
    assert [PGOUTPUT.action_of(split[n]) for n in (1, 4, 5)] == [b"I", b"U", b"T"]
    assert PGOUTPUT.read_row(split[1]) == {"id": "1", "note": "a\\", "n": None}
    assert PGOUTPUT.show_row(split[4]) == {"id": "1"}
    assert PGOUTPUT.show_row(split[5]) == {}
    only = PGOUTPUT.join(PGOUTPUT.extract(pack(messages), ("public", "u")))
    assert unpack(only) == [begin(50), other, messages[4], begin(200), messages[8]]
    assert PGOUTPUT.extract(pack(messages), ("public", "none")) == []


def test_rows_are_read_by_the_description_that_each_came_with():
    wider = relation("t", (*COLUMNS, "more"))
    payload = pack(
        [
            begin(1),
            DESCRIBED,
            change("I", "t", ["1", "a", "b"]),
            wider,
            change("I", "t", ["2", "a", "b", "c"]),
        ]
    )
    _, first, second = PGOUTPUT.split(payload)
    changes = PGOUTPUT.read_changes(T, make_shape((*COLUMNS, "more")), [first, second])
    assert [(run.layout.columns, run.changes[0][1]) for run in changes.runs] == [
        (COLUMNS, b"1"),
        ((*COLUMNS, "more"), b"2"),
    ]


def test_begin_whose_time_no_calendar_has_is_refused_by_replay_and_passes_receive():
    message = begin(0x100, at=(1 << 63) - 1)
    with pytest.raises(SpoolError, match="begin"):
        PGOUTPUT.read_begin(message)
    assert PgoutputStream().transaction(message).commit_lsn == 0x100


def test_begin_says_who_committed_when_and_where():
    read = PGOUTPUT.read_begin(begin(0x1_0000_0010, at=1_500_000, xid=9))
    assert read == (9, "2000-01-01 00:00:01.500000+00", 0x1_0000_0010, ())


def test_value_in_another_encoding_is_escaped_for_people_and_refused_for_machines():
    described = relation("t", ["id", "é"], codec="iso8859-1")
    payload = pack([begin(1), described, change("I", "t", ["1", b"\xe9"])])
    latin = PgoutputPayload("LATIN1")
    assert latin.read_row(latin.split(payload)[1]) == {"id": "1", "é": "é"}
    foreign = pack([begin(1), relation("t", ["id"]), change("I", "t", [b"\xe9"])])
    message = PGOUTPUT.split(foreign)[1]
    assert PGOUTPUT.show_row(message) == {"id": "\\xe9"}
    with pytest.raises(UnicodeDecodeError):
        PGOUTPUT.read_row(message)


def test_stream_asks_for_its_publications_and_knows_its_transactions():
    stream = PgoutputStream()
    (options,) = stream.option_sets("pgrepl_shop")
    assert options["publication_names"] == '"pgrepl_shop","pgrepl_shop_inserts"'
    assert stream.is_end_of(begin(0x100), commit(0x100))
    assert not stream.is_end_of(begin(0x100), commit(0x101))
    assert stream.transaction(begin(0x100, at=5)) == (0x100, None, 5, 7)
    assert stream.commit_lsn(begin(0x100)) == 0x100
    assert stream.commit_lsn(commit(0x100)) is None
