"""Which chunks contain a transaction: by snapshots, whatever the order of commits."""

from __future__ import annotations

import pytest

from pgrepl.decoding.wal2json import Wal2JsonPayload
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.replayer.chunked.visibility import Visibility, group_by_chunk
from pgrepl.store.resync.resync_chunks import ChunkRow


def chunk(number: int, snapshot: str, lsn: int) -> ChunkRow:
    return ChunkRow(
        number=number, is_range=True, low=None, high=None, snapshot=snapshot, lsn=Lsn(lsn)
    )


def begin(xid: int, lsn: int) -> bytes:
    return (
        f'{{"action":"B","xid":{xid},"timestamp":"2026-01-01 00:00:00+00","lsn":"0/{lsn:X}",'
        f'"nextlsn":"0/{lsn + 8:X}"}}'
    ).encode()


def test_first_chunk_that_sees_a_transaction_is_told():
    visibility = Visibility(
        [chunk(4, "10:12:10", 100), chunk(5, "10:14:10,12", 200), chunk(7, "13:15:13", 300)]
    )
    assert visibility.first(9, 50) == 4
    assert visibility.first(11, 90) == 4
    # Committed in the WAL before the first snapshot, which did not see it yet.
    assert visibility.first(10, 90) == 7
    assert visibility.first(12, 150) == 7
    assert visibility.first(13, 250) == visibility.none == 8
    assert Visibility([]).first(1, 1) == Visibility([]).none


def test_number_that_has_wrapped_is_placed_by_its_nearest():
    high = 1 << 32
    visibility = Visibility([chunk(1, f"{high - 2}:{high + 5}:{high - 2},{high + 1}", 100)])
    assert visibility.first(high - 3, 1) == 1
    assert visibility.first(high - 2, 1) == visibility.none
    assert visibility.first(0, 1) == 1
    assert visibility.first(1, 1) == visibility.none
    assert visibility.first(4, 1) == 1
    assert visibility.first(5, 1) == visibility.none


def test_changes_are_grouped_by_the_chunks_that_contain_them():
    visibility = Visibility([chunk(1, "10:12:10", 1000)])
    messages = [begin(9, 1), b"a", b"b", begin(11, 2), b"c", begin(10, 3), b"d", begin(12, 4)]
    groups, xids = group_by_chunk(Wal2JsonPayload("UTF8"), messages, visibility)
    assert groups == [(1, [b"a", b"b", b"c"]), (2, [b"d"])]
    assert xids == {10, 12}


def test_change_of_no_transaction_is_refused():
    with pytest.raises(SpoolError, match="of no transaction"):
        group_by_chunk(Wal2JsonPayload("UTF8"), [b"a"], Visibility([]))
