"""Frames of the replication protocol."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.slot.protocol import decode_keepalive, encode_status


@given(st.integers(0, (1 << 64) - 1), st.booleans())
def test_keepalive_tells_its_position_and_whether_to_answer(wal_end, is_reply_requested):
    frame = struct.pack("!cQqB", b"k", wal_end, 0, is_reply_requested)
    assert decode_keepalive(memoryview(frame)) == (Lsn(wal_end), is_reply_requested)


@given(st.binary(max_size=40))
def test_any_other_frame_is_refused(frame):
    if len(frame) != 18 or frame[:1] != b"k":
        with pytest.raises(SpoolError):
            decode_keepalive(memoryview(frame))


@given(st.integers(0, 1 << 63), st.integers(0, 1 << 63), st.booleans())
def test_status_never_claims_to_have_flushed_more_than_received(received, flushed, wants):
    status = encode_status(received=received, flushed=flushed, at=1, wants_reply=wants)
    tag, written, durable, applied, at, wants_reply = struct.unpack("!cQQQqB", status)
    assert (tag, at, wants_reply) == (b"r", 1, wants)
    assert durable == applied == flushed
    assert written == max(received, flushed)
