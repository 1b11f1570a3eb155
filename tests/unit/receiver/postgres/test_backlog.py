"""When a backlog is pulled, and how much of it at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.slot.backlog import Backlog, Chunk, Standing
from pgrepl.receiver.settings import ReceiverSettings

MIB = 1 << 20
SETTINGS = ReceiverSettings(
    pull_from_bytes=16 * MIB,
    pull_while_bytes=2 * MIB,
    pull_window_bytes=128 * MIB,
    pull_again_bytes=1024 * MIB,
    pull_first_rows=100,
    pull_max_rows=500,
    pull_bytes=1000,
    pull_decode_s=1.0,
)
FAR = Standing(
    end=Lsn(3000 * MIB), is_last=False, received=Lsn(2000 * MIB), restart=Lsn(1990 * MIB)
)


@pytest.mark.parametrize(
    ("behind", "is_pulling", "is_last", "expected"),
    [
        (16 * MIB, False, False, True),
        (16 * MIB - 1, False, False, False),
        (16 * MIB - 1, False, True, False),
        (2 * MIB, True, False, True),
        (2 * MIB - 1, True, False, False),
        (1, True, True, True),
        (0, True, True, False),
    ],
)
def test_pulling_begins_far_from_the_end_and_goes_on_until_it_is_near(
    behind, is_pulling, is_last, expected
):
    standing = replace(FAR, end=Lsn(FAR.received + behind), is_last=is_last)
    assert Backlog(SETTINGS).is_worth_pulling(standing, is_pulling=is_pulling) is expected


def test_nothing_is_pulled_while_an_old_transaction_holds_the_slot_back():
    held = replace(FAR, restart=Lsn(FAR.received - 1024 * MIB - 1))
    assert not Backlog(SETTINGS).is_worth_pulling(held, is_pulling=True)


def test_nothing_is_pulled_that_standbys_may_not_have():
    awaiting = replace(FAR, awaits_standbys=True)
    assert not Backlog(SETTINGS).is_worth_pulling(awaiting, is_pulling=False)


def test_source_behind_what_was_received_is_no_backlog():
    """As after a crash that it has not recovered from."""
    assert replace(FAR, end=Lsn(1)).behind_bytes == 0


def test_chunk_ends_after_some_wal_or_at_the_end():
    backlog = Backlog(SETTINGS)
    assert backlog.plan(FAR) == Chunk(Lsn(2128 * MIB), 100, 128 * MIB)
    near = replace(FAR, end=Lsn(2001 * MIB))
    assert backlog.plan(near) == Chunk(Lsn(2001 * MIB), 100, MIB)


def test_chunk_has_the_more_new_in_it_the_more_is_decoded_again():
    held = replace(FAR, restart=Lsn(1400 * MIB))
    assert Backlog(SETTINGS).plan(held).upto == 2300 * MIB


@pytest.mark.parametrize(
    ("byte_count", "decode_s", "expected"),
    [
        (500, 0.1, 200),
        (1, 0.001, 400),
        (500, 2.0, 50),
        (1500, 0.1, 66),
        (10**6, 100.0, 50),
    ],
)
def test_next_chunk_is_as_big_as_the_last_one_suggests(byte_count, decode_s, expected):
    backlog = Backlog(SETTINGS)
    chunk = backlog.plan(FAR)
    backlog.learn(chunk, rows=100, byte_count=byte_count, decode_s=decode_s)
    assert backlog.plan(FAR).max_rows == expected


def test_chunks_grow_to_a_limit_and_one_that_ended_early_says_nothing():
    backlog = Backlog(SETTINGS)
    for _ in range(5):
        chunk = backlog.plan(FAR)
        backlog.learn(chunk, rows=chunk.max_rows, byte_count=1, decode_s=0.001)
    assert backlog.plan(FAR).max_rows == 500
    backlog.learn(backlog.plan(FAR), rows=3, byte_count=128 * MIB, decode_s=100)
    assert backlog.plan(FAR).max_rows == 500


def test_chunk_that_was_too_much_is_streamed_to_its_end():
    backlog = Backlog(SETTINGS)
    chunk = backlog.plan(FAR)
    backlog.give_up(chunk)
    assert not backlog.is_worth_pulling(FAR, is_pulling=True)
    assert not backlog.is_worth_pulling(
        replace(FAR, received=Lsn(chunk.upto - 1)), is_pulling=False
    )
    assert backlog.is_worth_pulling(replace(FAR, received=chunk.upto), is_pulling=False)


@pytest.mark.parametrize(
    ("behind", "byte_count", "is_pulled"),
    [(128 * MIB, 8 * MIB - 1, False), (128 * MIB, 8 * MIB, True), (15 * MIB, 0, True)],
)
def test_wal_with_hardly_any_messages_is_streamed(behind, byte_count, is_pulled):
    """A transaction that is bigger than a chunk is not decoded again and again until it ends."""
    backlog = Backlog(SETTINGS)
    chunk = backlog.plan(replace(FAR, end=Lsn(FAR.received + behind)))
    backlog.learn(chunk, rows=3, byte_count=byte_count, decode_s=1)
    after = replace(FAR, received=chunk.upto)
    assert backlog.is_worth_pulling(after, is_pulling=True) is is_pulled
    beyond = replace(FAR, received=Lsn(chunk.upto + 128 * MIB))
    assert backlog.is_worth_pulling(beyond, is_pulling=False)
