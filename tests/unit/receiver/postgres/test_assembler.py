"""Messages become segments of whole transactions."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgrepl.config.naming import TableSelection
from pgrepl.decoding.wal2json import Wal2JsonStream
from pgrepl.decoding.wal2json.short import lines_of as expanded
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.assembler import Assembler
from pgrepl.receiver.routing import CatalogueTable, Router
from pgrepl.store.spool.spool_format import bucket_of
from tests.support.messages.lines import begin, change, commit, frame, transaction

START = Lsn(0x50)
LOST = 'no tuple identifier for UPDATE in table "%s"'


pytestmark = pytest.mark.usefixtures("core")


def make(limit_bytes=1 << 20, **options):
    tables = [
        CatalogueTable("public", "f", "public", "f", False, ["x", "y"], ["x"], ["x", "y"], 3),
        CatalogueTable("public", "v", "public", "v", True, [], [], [], 3),
    ]
    router = Router(
        decoder=Wal2JsonStream(),
        db="db",
        selection=TableSelection.of(["*.*"], ["bi.*"]),
        codec="utf-8",
        assigned={},
        read_catalogue=lambda: tables,
    )
    return Assembler(
        decoder=Wal2JsonStream(),
        router=router,
        start=START,
        last_seq=5,
        limit_bytes=limit_bytes,
        **options,
    )


def feed(assembler, *frames):
    for one in frames:
        assembler.take([one])


def split_begins(payload):
    """Return the begin lines, and how many other lines there are."""
    lines = payload.split(b"\n")
    begins = [line for line in lines if line.startswith(b'{"action":"B"')]
    return begins, len(lines) - len(begins)


def lines_of(batches):
    return [expanded(b"".join(part.payload)) for batch in batches for part in batch.parts]


def test_whole_transactions_gather_in_one_segment():
    assembler = make()
    feed(assembler, *transaction(0x100, change("I", "a")), *transaction(0x200, change("I", "a")))
    assembler.flush()
    (batch,) = assembler.ready
    (part,) = batch.parts
    assert part.payload == (
        b"\n".join([begin(0x100), change("I", "a"), begin(0x200), change("I", "a")]),
    )
    assert (part.seq, part.bucket, part.kind) == (6, bucket_of("db", "public", "a"), "parallel")
    assert (part.first_lsn, part.last_lsn) == (Lsn(0x100), Lsn(0x230))
    assert (part.change_count, batch.transaction_count, batch.position) == (2, 2, Lsn(0x230))


def test_each_bucket_gets_the_begin_lines_of_its_own_transactions():
    assembler = make()
    feed(
        assembler,
        *transaction(0x100, change("I", "a"), change("I", "b"), change("U", "a")),
        *transaction(0x200, change("I", "b")),
    )
    assembler.flush()
    assert lines_of(assembler.ready) == [
        b"\n".join([begin(0x100), change("I", "a"), change("U", "a")]),
        b"\n".join([begin(0x100), change("I", "b"), begin(0x200), change("I", "b")]),
    ]
    assert [part.part for part in assembler.ready[0].parts] == [0, 1]


def test_transaction_in_hand_is_not_part_of_a_flush():
    assembler = make()
    feed(assembler, *transaction(0x100, change("I", "a")), frame(begin(0x200)))
    feed(assembler, frame(change("U", "a")), frame(change("I", "b")))
    assembler.flush()
    (batch,) = assembler.ready
    assert (batch.position, batch.change_count) == (Lsn(0x130), 1)
    assert lines_of([batch]) == [begin(0x100) + b"\n" + change("I", "a")]
    feed(assembler, frame(change("D", "a")), frame(commit(0x200), 0x230))
    assembler.flush()
    assert lines_of(assembler.ready)[1:] == [
        b"\n".join([begin(0x200), change("U", "a"), change("D", "a")]),
        begin(0x200) + b"\n" + change("I", "b"),
    ]


def test_truncate_makes_a_segment_of_its_own():
    assembler = make()
    feed(
        assembler,
        *transaction(0x100, change("I", "a")),
        *transaction(0x200, change("I", "a"), change("T", "b"), change("I", "a")),
        *transaction(0x300, change("I", "a")),
    )
    assembler.flush()
    assert [(b.parts[0].kind, b.parts[0].seq, b.position) for b in assembler.ready] == [
        ("parallel", 6, Lsn(0x130)),
        ("serial", 7, Lsn(0x230)),
        ("parallel", 8, Lsn(0x330)),
    ]
    (serial,) = assembler.ready[1].parts
    assert (serial.bucket, serial.change_count) == (-1, 3)


def test_delete_of_captured_ddl_is_nobodys_business():
    assembler = make()
    feed(assembler, *transaction(0x100, change("D", "ddl_log", schema="pgrepl")))
    assembler.flush()
    assert not assembler.ready
    feed(assembler, *transaction(0x200, change("I", "ddl_log", schema="pgrepl")))
    assert assembler.ready[0].parts[0].kind == "serial"


def test_excluded_tables_leave_an_empty_transaction_that_moves_the_position():
    assembler = make()
    feed(
        assembler, *transaction(0x100, change("I", "a", schema="bi"), change("T", "a", schema="bi"))
    )
    assert not assembler.has_segment
    assert assembler.received == 0x130
    assert assembler.is_settled
    assert assembler.position_batch().position == Lsn(0x130)


def test_big_transaction_leaves_in_parts_and_only_the_last_has_a_position():
    assembler = make(limit_bytes=1000)
    feed(assembler, *transaction(0x100, change("I", "a")))
    feed(assembler, *transaction(0x200, *[change("I", "a", note="x" * 300)] * 10))
    first, *parts = assembler.ready
    assert first.position == Lsn(0x130)
    assert [batch.position for batch in parts[:-1]] == [None] * (len(parts) - 1)
    assert parts[-1].position == Lsn(0x230)
    numbers = [part.part for batch in parts for part in batch.parts]
    assert numbers == list(range(len(numbers)))
    assert {part.seq for batch in parts for part in batch.parts} == {7}
    assert sum(part.change_count for batch in parts for part in batch.parts) == 10
    assert all(text.startswith(begin(0x200)) for text in lines_of(parts))


def test_nothing_may_commit_while_a_big_transaction_is_on_its_way():
    assembler = make(limit_bytes=1000)
    big = frame(change("I", "a", note="x" * 2000))
    feed(assembler, frame(begin(0x100)), big, big)
    assembler.ready.clear()
    assert not assembler.is_settled
    assembler.take_wal_end(Lsn(0x900))
    assert assembler.received == START


def test_big_transaction_that_turns_serial_says_so_once():
    assembler = make(limit_bytes=1000)
    big = change("I", "a", note="x" * 2000)
    feed(assembler, *transaction(0x100, big, big, change("T", "b"), big, change("I", "c")))
    assert [batch.turns_serial for batch in assembler.ready] == [None, 6, None, None, None]
    kinds = [batch.parts[0].kind for batch in assembler.ready]
    assert kinds == ["parallel", "serial", "serial", "serial", "serial"]


def test_what_came_before_a_truncate_is_in_the_same_stream_each_table_in_its_order():
    assembler = make()
    a1, b1, a2 = change("I", "a", n=1), change("I", "b", n=1), change("I", "a", n=2)
    feed(
        assembler,
        *transaction(0x100, a1),
        *transaction(0x200, a1, b1, a2, change("T", "a"), b1, a1),
    )
    before, serial = assembler.ready
    assert lines_of([before]) == [begin(0x100) + b"\n" + a1]
    assert lines_of([serial]) == [
        b"\n".join([begin(0x200), a1, a2, b1, change("T", "a"), b1, a1]),
    ]


def test_line_bigger_than_the_limit_gets_a_payload_of_its_own():
    assembler = make(limit_bytes=1000)
    big = change("I", "a", note="x" * 2_000_000)
    feed(assembler, *transaction(0x100, change("I", "a"), big, change("D", "a")))
    assert lines_of(assembler.ready) == [
        b"\n".join([begin(0x100), line]) for line in (change("I", "a"), big, change("D", "a"))
    ]
    # What it weighed is forgotten with it.
    assembler.ready.clear()
    feed(assembler, *transaction(0x200, change("I", "a"), change("I", "a")))
    assert not assembler.ready


def test_big_line_is_handed_on_and_not_copied():
    assembler = make(limit_bytes=1000)
    feed(assembler, *transaction(0x100, change("I", "a", note="x" * 2_000_000)))
    assembler.flush()
    assert len(assembler.ready[0].parts[0].payload) == 3


def test_stop_lsn_ends_before_the_first_transaction_that_commits_there():
    assembler = make(stop_lsn=Lsn(0x200))
    feed(assembler, *transaction(0x100, change("I", "a")))
    assert not assembler.is_finished
    assert assembler.take([frame(begin(0x200))])
    assert assembler.is_finished
    assert assembler.received == 0x200


def test_what_comes_behind_the_end_is_not_taken():
    """The next receiver takes it; a position past it would lose it."""
    assembler = make(stop_lsn=Lsn(0x200))
    assembler.take([*transaction(0x100, change("I", "a")), *transaction(0x250, change("I", "a"))])
    assembler.take(transaction(0x300, change("I", "a")))
    assembler.take_wal_end(Lsn(0x900))
    assembler.flush()
    (batch,) = assembler.ready
    assert (batch.position, batch.change_count) == (Lsn(0x200), 1)


def test_stop_lsn_ends_when_the_source_has_passed_it():
    assembler = make(stop_lsn=Lsn(0x200))
    assembler.take_wal_end(Lsn(0x1FF))
    assert not assembler.is_finished
    assembler.take_wal_end(Lsn(0x200))
    assert assembler.is_finished


def test_loss_goes_with_its_transaction():
    assembler = make()
    feed(assembler, frame(begin(0x100)))
    assembler.take_notice("WARNING", LOST % 'public"."a')
    assembler.take_notice("WARNING", LOST % 'public"."v')
    assembler.take_notice("WARNING", LOST % 'bi"."a')
    feed(assembler, frame(commit(0x100), 0x130))
    assert assembler.has_segment
    assembler.flush()
    (batch,) = assembler.ready
    assert list(batch.losses) == [("public", "a")]
    assert (batch.parts, batch.position, batch.last_seq) == ((), Lsn(0x130), 5)


def test_loss_is_not_that_of_the_transaction_before():
    assembler = make()
    feed(assembler, *transaction(0x100, change("T", "a")), frame(begin(0x200)))
    assembler.take_notice("WARNING", LOST % 'public"."a')
    (batch,) = assembler.ready
    assert batch.losses == {}


def test_null_in_a_not_null_float_is_a_loss_unless_numbers_are_texts():
    for has_special_values, expected in ((False, [("public", "f")]), (True, [])):
        assembler = make(has_special_values=has_special_values)
        feed(assembler, *transaction(0x100, change("I", "f", x=None, y=None)))
        assembler.flush()
        assert list(assembler.ready[0].losses) == expected


def test_special_values_are_put_back():
    assembler = make()
    feed(assembler, frame(begin(0x100)))
    assembler.take_notice("DEBUG", "special value: NaN")
    feed(assembler, frame(change("I", "f", x=None, y=1)), frame(commit(0x100), 0x130))
    assembler.flush()
    assert lines_of(assembler.ready) == [begin(0x100) + b"\n" + change("I", "f", x="NaN", y=1)]
    assert not assembler.ready[0].losses


def test_special_value_that_no_change_followed_is_forgotten():
    assembler = make()
    feed(assembler, frame(begin(0x100)))
    assembler.take_notice("DEBUG", "special value: NaN")
    feed(assembler, frame(commit(0x100), 0x130), *transaction(0x200, change("I", "f", x=1, y=None)))
    assembler.flush()
    assert lines_of(assembler.ready) == [begin(0x200) + b"\n" + change("I", "f", x=1, y=None)]


@pytest.mark.parametrize(
    "frames",
    [
        [frame(change("I", "a"))],
        [frame(begin(0x100)), frame(begin(0x200))],
        [frame(commit(0x100), 0x130)],
        [frame(begin(0x100)), frame(commit(0x200), 0x230)],
        [frame(b'{"action":"X"}')],
        [frame(b"{}")],
        [frame(b"")],
    ],
)
def test_stream_out_of_order_is_refused(frames):
    with pytest.raises(SpoolError):
        feed(make(), *frames)


def test_change_of_a_known_table_outside_a_transaction_is_refused():
    assembler = make()
    feed(assembler, *transaction(0x100, change("I", "a")))
    with pytest.raises(SpoolError, match="outside"):
        feed(assembler, frame(change("I", "a")))


def test_transaction_that_is_sent_again_is_refused():
    assembler = make()
    feed(assembler, *transaction(0x100, change("I", "a")))
    with pytest.raises(SpoolError, match="again"):
        feed(assembler, *transaction(0x100, change("I", "a")))


def test_commit_whose_frame_stands_elsewhere_is_refused():
    assembler = make()
    feed(assembler, frame(begin(0x100)), frame(change("I", "a")), frame(commit(0x100), 0x131))
    with pytest.raises(SpoolError, match="ended a transaction at 0/131"):
        assembler.flush()


@given(st.binary(max_size=60))
@example(bytes(11) + b"B")
@example(b'{"action":"B')
@example(bytes(11) + b"C")
@example(bytes(11) + b"I")
@example(bytes(11) + b"M")
def test_any_bytes_are_refused_and_nothing_else_is_raised(message):
    with pytest.raises(SpoolError):
        feed(make(), frame(message))


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from("abcdef"), max_size=6), st.booleans()), max_size=12
    ),
    st.integers(200, 3000),
    st.integers(1, 9),
    st.booleans(),
)
def test_every_change_leaves_once_in_the_order_of_its_table(
    transactions, limit_bytes, frame_count, has_flushes
):
    assembler = make(limit_bytes=limit_bytes)
    expected: dict[str, list[bytes]] = {}
    frames = []
    number = 0
    for position, (tables, is_serial) in enumerate(transactions):
        changes = []
        for table in tables:
            number += 1
            changes.append(change("I", table, id=number))
            expected.setdefault(table, []).append(changes[-1])
        if is_serial:
            changes.insert(len(changes) // 2, change("T", "g"))
        frames += transaction(0x100 * (position + 1), *changes)
    for start in range(0, len(frames), frame_count):
        assembler.take(frames[start : start + frame_count])
        if has_flushes:
            assembler.flush()
    assembler.flush()
    found: dict[str, list[bytes]] = {}
    for text in lines_of(assembler.ready):
        for line in text.split(b"\n"):
            if line.startswith(b'{"action":"I"'):
                found.setdefault(Wal2JsonStream().table_name(line, "utf-8")[1], []).append(line)
    assert found == expected
    written = [part for batch in assembler.ready for part in batch.parts]
    seqs = [part.seq for part in written]
    assert seqs == sorted(seqs)
    ends = {part.seq: part.part for part in written}
    assert {part.seq: part.part for part in written if part.is_last} == ends
    assert sum(part.is_last for part in written) == len(ends)
    positions = [b.position for b in assembler.ready if b.position is not None]
    assert positions == sorted(set(positions))
    counted = [(part.change_count, part.payload) for b in assembler.ready for part in b.parts]
    for change_count, payload in counted:
        begins, changes = split_begins(expanded(b"".join(payload)))
        assert change_count == changes
        assert begins == sorted(set(begins))
