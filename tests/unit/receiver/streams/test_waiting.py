"""Records that wait for the end of their transaction, where there is no room for them."""

from __future__ import annotations

import tempfile

import pytest

from pgrepl.decoding.debezium.duplicates import Newest
from pgrepl.errors import SpoolError
from pgrepl.receiver.streams.record import Record
from pgrepl.receiver.streams.waiting import Item, Memory, WaitingQueue

PLACE = ("t", 0)


def test_disk_that_is_full_is_said_and_not_again_when_the_file_is_closed(monkeypatch):
    # The system's own full disk.
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "w+b"))  # noqa: PTH123, SIM115
    queue = WaitingQueue(PLACE, Memory(0), lambda _: None)

    def append(offset: int, size: int) -> None:
        record = Record(PLACE, offset, offset + 1, b"k", bytes(size), 0)
        queue.append(Item(record, None), Newest(), ("app", "t"), 0)

    append(0, 10)
    with pytest.raises(SpoolError, match="cannot be kept in"):
        append(1, 1 << 20)
    queue.close()
