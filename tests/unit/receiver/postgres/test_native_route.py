"""The compiled core takes messages as Python does, and leaves to it what it refuses."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.decoding.formats import stream_decoder
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.native import native
from pgrepl.receiver.postgres.slot.protocol import COPY_ROW_FRAMING, XLOG_DATA_FRAMING
from tests.support.examples import examples
from tests.support.messages import lines, tuples
from tests.support.messages.assembling import make_assembler
from tests.support.messages.routing import take_by_core, take_by_python

pytestmark = pytest.mark.skipif(native is None, reason="nothing is compiled here")

TABLES = ["a", "b", "c", "excluded", 'q"uote']


def make(plugin, **options):
    return make_assembler(
        stream_decoder(plugin), ["public.excluded"], has_special_values=True, **options
    )


def pgoutput_change(dice, table, number):
    kind = dice.choice("IUD")
    row = [str(number), dice.choice(["x", None, "long " * dice.randrange(50)])]
    if kind == "D":
        return tuples.change("D", table, key=[str(number), None])
    return tuples.change(kind, table, row)


def pgoutput_stream(dice, count):
    """Make the messages of transactions, each with its position."""
    for number in range(1, count + 1):
        at = number * 0x100
        yield tuples.begin(at), 0
        if number == 1 or dice.random() < 0.1:
            for table in TABLES:
                yield tuples.relation(table), 0
        for _ in range(dice.choice([0, 1, 3, 20])):
            yield pgoutput_change(dice, dice.choice(TABLES), number), 0
        if dice.random() < 0.1:
            yield tuples.truncate(*dice.sample(TABLES, 2)), 0
            yield pgoutput_change(dice, dice.choice(TABLES), number), 0
        yield tuples.commit(at), at + 0x30


def wal2json_stream(dice, count):
    for number in range(1, count + 1):
        at = number * 0x100
        yield lines.begin(at), 0
        for _ in range(dice.choice([0, 1, 3, 20])):
            kind = dice.choice("IUDIUDIUDT")
            columns = {} if kind == "T" else {"id": number, "note": dice.choice(["x", None, '":['])}
            yield lines.change(kind, dice.choice(TABLES), **columns), 0
        yield lines.commit(at), at + 0x30


STREAMS = {"pgoutput": pgoutput_stream, "wal2json": wal2json_stream}


def framed(stream, framing):
    """Wrap messages as a stream does, or as rows of a COPY."""
    before = b"w" if framing is XLOG_DATA_FRAMING else bytes(6)
    after = framing.header_bytes - framing.lsn_at.stop
    return [before + at.to_bytes(8, "big") + bytes(after) + message for message, at in stream]


def run(take, plugin, frames, framing, flush_after, **options):
    """Return the batches, and the error if there is one, and where it stands at the end."""
    assembler = make(plugin, **options)
    error = None
    try:
        for start in range(0, len(frames), flush_after):
            own = [memoryview(frame) for frame in frames[start : start + flush_after]]
            take(assembler, own, framing)
            assembler.flush()
    except SpoolError as exc:
        error = exc.message
    state = assembler.received, assembler.is_in_transaction, assembler.is_finished
    return [repr(batch) for batch in assembler.ready], error, state, assembler.has_segment


def both(*arguments, **options):
    by_core = run(take_by_core, *arguments, **options)
    assert by_core == run(take_by_python, *arguments, **options)
    return by_core


@examples(50)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from([*STREAMS]),
    st.sampled_from([XLOG_DATA_FRAMING, COPY_ROW_FRAMING]),
    st.sampled_from([3, 40, 1 << 20]),
    st.fixed_dictionaries(
        {
            "limit_bytes": st.sampled_from([150, 1000, 1 << 20]),
            "stop_lsn": st.sampled_from([None, Lsn(0x300)]),
        }
    ),
)
def test_same_segments_are_made(seed, plugin, framing, flush_after, options):
    dice = random.Random(seed)
    frames = framed(STREAMS[plugin](dice, dice.randrange(1, 12)), framing)
    _, error, *_ = both(plugin, frames, framing, flush_after, **options)
    assert error is None


@examples(75)
@given(st.integers(0, 1 << 30), st.sampled_from([*STREAMS]), st.data())
def test_damaged_stream_is_refused_in_the_same_words(seed, plugin, data):
    dice = random.Random(seed)
    frames = framed(STREAMS[plugin](dice, 3), XLOG_DATA_FRAMING)
    place = data.draw(st.integers(0, len(frames) - 1))
    what = data.draw(st.sampled_from(["byte", "cut", "lost", "twice", "noise"]))
    frame = bytearray(frames[place])
    if what == "byte":
        frame[data.draw(st.integers(1, len(frame) - 1))] = data.draw(st.integers(0, 255))
    elif what == "cut":
        del frame[max(26, data.draw(st.integers(0, len(frame)))) :]
    elif what == "noise":
        frame[25:] = data.draw(st.binary(min_size=1, max_size=60))
    repeated = {"lost": 0, "twice": 2}.get(what, 1)
    frames[place : place + 1] = [bytes(frame)] * repeated
    both(plugin, frames, XLOG_DATA_FRAMING, 1 << 20, limit_bytes=1 << 20)


def test_keepalive_and_short_frames_are_left():
    assert native is not None
    for frame in (b"k" + bytes(17), b"w", b"", b"w" + bytes(24)):
        routed = make("pgoutput", limit_bytes=1 << 20).route(native, [memoryview(frame)], 1 << 20)
        assert (routed.frame, routed.message_count) == (frame, 0)


def test_no_more_is_taken_than_is_wanted():
    assert native is not None
    frames = [
        memoryview(f) for f in framed(pgoutput_stream(random.Random(1), 9), XLOG_DATA_FRAMING)
    ]
    assembler = make("pgoutput", limit_bytes=1 << 20)
    assert assembler.route(native, frames, 1).message_count == 1
    assert assembler.route(native, frames[1:], 0).message_count == 0


@pytest.mark.parametrize("frames", [None, (), (0, 0, 0, []), (1, 2, 3, None), ["no buffer"]])
def test_what_brings_no_frames_is_refused(frames):
    assert native is not None
    with pytest.raises((TypeError, ValueError)):
        make("pgoutput", limit_bytes=1 << 20).route(native, frames, 1 << 20)
