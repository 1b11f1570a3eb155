"""Changes gathered for one commit, by bucket; they leave as one segment of the spool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pgrepl.decoding.payload import RecordPlace
from pgrepl.decoding.pgoutput import writing
from pgrepl.decoding.pgoutput.framing import pack
from pgrepl.lsn import Lsn
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.layouts import RowLayout
from pgrepl.receiver.streams.record import Place, Record
from pgrepl.store.spool.spool_format import SERIAL_BUCKET, SegmentKind, SpoolPart

__all__ = ["Gathered", "Outlet"]

#: Microseconds from 1970 to 2000.
_EPOCH_US = 946_684_800_000_000
#: Of the framing, for each message.
_MESSAGE_BYTES = 4


@dataclass(slots=True)
class _Bucket:
    messages: list[bytes] = field(default_factory=list)
    #: The description of each table that holds at the end of them.
    relations: dict[int, bytes] = field(default_factory=dict)
    #: Before which of them it is said which records follow, and how.
    told: list[tuple[int, bytes]] = field(default_factory=list)
    #: The table and the record that need no word if they are the next ones.
    expected: tuple[int, Place, int] | None = None
    change_count: int = 0

    def tell(self, oid: int, records: Sequence[Record]) -> None:
        """Say which records the next change of a table is made of, if that is not expected."""
        last = records[-1]
        own = oid, last.place, last.offset
        if len(records) > 1 or own != self.expected:
            named = [RecordPlace(*record.place, record.offset) for record in records]
            self.told.append((len(self.messages), writing.end_of_begin(named)))
        # What is made of several says nothing of those that follow.
        self.expected = (oid, last.place, last.offset + 1) if len(records) == 1 else None

    def with_begins(self, begin: bytes) -> list[bytes]:
        """Return all messages, those that say which records follow among them."""
        found: list[bytes] = []
        done = 0
        for at, end in self.told:
            found += self.messages[done:at]
            found.append(begin + end)
            done = at
        found += self.messages[done:]
        return found


class Outlet(Protocol):
    """Where changes go that are gathered."""

    def bucket_of(self, name: TableName) -> int:
        """Return the bucket that the changes of a table go into."""

    def park(self, record: Record, reason: str) -> None:
        """Keep a record that cannot be read, though it was taken earlier."""

    def make_room(self) -> None:
        """Let what is gathered leave, as parts of a segment that goes on."""


class Gathered:
    """Changes in order; a TRUNCATE among them makes the segment a serial one.

    More than ``limit_bytes`` do not wait here: they leave as parts of a segment that is not
    committed before the last one. So at least one change is here after each that is added.
    """

    def __init__(self, outlet: Outlet, limit_bytes: int) -> None:
        """Begin with none."""
        self._outlet = outlet
        self._limit_bytes = limit_bytes
        self._buckets: dict[int, _Bucket] = {}
        self._part_count = 0
        #: Whether parts left that have to become serial with the next ones.
        self.turns_serial = False
        self.is_serial = False
        self.byte_count = 0
        self.change_count = 0
        self._first_us: int | None = None
        self._last_us = 0

    def add(
        self,
        layout: RowLayout,
        message: bytes,
        at_us: int,
        records: Sequence[Record],
        *,
        is_serial: bool = False,
    ) -> None:
        """Add a change of a table, and the records that it was made of."""
        if self.byte_count >= self._limit_bytes:
            self._outlet.make_room()
        if self._first_us is None:
            self._first_us = at_us
        self._last_us = max(self._last_us, at_us)
        if is_serial and not self.is_serial:
            self._turn_serial()
        number = SERIAL_BUCKET if self.is_serial else self._outlet.bucket_of(layout.name)
        own = self._buckets.get(number)
        if own is None:
            own = self._buckets[number] = _Bucket()
        own.tell(layout.oid, records)
        if own.relations.get(layout.oid) != layout.relation:
            own.relations[layout.oid] = layout.relation
            own.messages.append(layout.relation)
            self.byte_count += len(layout.relation)
        own.messages.append(message)
        own.change_count += 1
        self.change_count += 1
        self.byte_count += len(message) + _MESSAGE_BYTES

    def park(self, record: Record, reason: str) -> None:
        """Keep a record that was taken earlier and cannot be read."""
        self._outlet.park(record, reason)

    def take_parts(self, seq: int, first: Lsn, last: Lsn, *, is_end: bool) -> list[SpoolPart]:
        """Take the changes out, as parts of the segment between two positions.

        Without ``is_end`` the segment goes on, and its last part says where it ends.
        """
        kind: SegmentKind = "serial" if self.is_serial else "parallel"
        first_us = (self._first_us or 0) - _EPOCH_US
        last_us = max(first_us, self._last_us - _EPOCH_US)
        begin = writing.begin(first, last_us)
        found = sorted(self._buckets.items())
        last_part = self._part_count + len(found) - 1
        parts = [
            SpoolPart(
                seq=seq,
                bucket=bucket,
                part=number,
                kind=kind,
                first_lsn=first,
                last_lsn=last,
                first_commit_at=first_us,
                last_commit_at=last_us,
                change_count=own.change_count,
                is_last=is_end and number == last_part,
                payload=(pack(own.with_begins(begin)),),
            )
            for number, (bucket, own) in enumerate(found, start=self._part_count)
        ]
        self._buckets = {}
        self.byte_count = self.change_count = 0
        self.turns_serial = False
        self._part_count = 0 if is_end else last_part + 1
        if is_end:
            self.is_serial = False
            self._first_us, self._last_us = None, 0
        return parts

    @property
    def is_segment_open(self) -> bool:
        """Whether parts of the segment left already."""
        return self._part_count > 0

    @property
    def commit_at(self) -> int:
        """When the newest of them happened, in microseconds since 2000."""
        return self._last_us - _EPOCH_US

    def _turn_serial(self) -> None:
        """Put what is there into one stream."""
        self.is_serial = True
        self.turns_serial = self.is_segment_open
        serial = _Bucket()
        for own in self._buckets.values():
            serial.told += ((len(serial.messages) + at, end) for at, end in own.told)
            serial.messages += own.messages
            serial.relations |= own.relations
            serial.change_count += own.change_count
        self._buckets = {SERIAL_BUCKET: serial} if serial.messages else {}
