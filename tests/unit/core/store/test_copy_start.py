"""Which transactions a copy contains already."""

from __future__ import annotations

import pytest

from pgrepl.decoding.wal2json.by_table import contained_in
from pgrepl.lsn import Lsn
from pgrepl.store.tables.copy_start import CopyStart, _widened

EPOCH = 1 << 32


@pytest.mark.parametrize(("commit_lsn", "is_contained"), [(99, True), (100, False), (101, False)])
def test_without_snapshot_the_position_decides(commit_lsn, is_contained):
    assert CopyStart(Lsn(100)).contains()(5, commit_lsn) is is_contained


@pytest.mark.parametrize(
    ("xid", "commit_lsn", "is_contained"),
    [
        (9, 50, True),  # ended before the snapshot
        (10, 50, False),  # was running
        (11, 50, True),
        (12, 50, False),  # was running
        (15, 50, False),  # began later
        (9, 100, False),  # the position says that nothing from there on is in the copy
    ],
)
def test_with_snapshot_visibility_decides_before_the_position(xid, commit_lsn, is_contained):
    assert CopyStart(Lsn(100), "10:15:10,12").contains()(xid, commit_lsn) is is_contained


@pytest.mark.parametrize(
    ("xid", "is_contained"), [(0xFFFFFFF0, True), (0xFFFFFFFF, False), (2, True), (5, False)]
)
def test_numbers_wrap_around(xid, is_contained):
    snapshot = f"{EPOCH - 1}:{EPOCH + 5}:{EPOCH - 1}"
    assert CopyStart(Lsn(100), snapshot).contains()(xid, 50) is is_contained


@pytest.mark.parametrize(
    ("xid", "near", "wide"),
    [
        (5, 7, 5),
        (5, EPOCH + 3, EPOCH + 5),
        (0xFFFFFFFF, EPOCH + 3, EPOCH - 1),
        (3, 2 * EPOCH - 1, 2 * EPOCH + 3),
    ],
)
def test_number_is_widened_to_the_nearest(xid, near, wide):
    assert _widened(xid, near) == wide


def test_begin_line_is_asked_once_and_answered_by_its_own_numbers():
    is_contained = contained_in(CopyStart(Lsn(0x100)))
    line = (
        b'{"action":"B","xid":7,"timestamp":"2026-01-01 00:00:00+00","origin":0,'
        b'"lsn":"0/%b","nextlsn":"0/200"}'
    )
    assert [is_contained(line % lsn) for lsn in (b"FF", b"FF", b"100", b"FF")] == [
        True,
        True,
        False,
        True,
    ]
