"""Changes gathered for one commit, by bucket; they leave as one segment of the spool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pgrepl.decoding.pgoutput import writing
from pgrepl.decoding.pgoutput.framing import pack
from pgrepl.lsn import Lsn
from pgrepl.receiver.streams.layouts import RowLayout
from pgrepl.store.spool import SERIAL_BUCKET, SegmentKind, SpoolPart

__all__ = ["Gathered"]

#: Microseconds from 1970 to 2000.
_EPOCH_US = 946_684_800_000_000
#: Of the framing, for each message.
_MESSAGE_BYTES = 4


@dataclass(slots=True)
class _Bucket:
    messages: list[bytes] = field(default_factory=list)
    #: The description of each table that holds at the end of them.
    relations: dict[int, bytes] = field(default_factory=dict)
    change_count: int = 0


class Gathered:
    """Changes in order; a TRUNCATE among them makes the segment a serial one."""

    def __init__(self, bucket_of: Callable[[tuple[str, str]], int]) -> None:
        """Begin with none; ``bucket_of`` says where the changes of a table go."""
        self._bucket_of = bucket_of
        self._buckets: dict[int, _Bucket] = {}
        self.is_serial = False
        self.byte_count = 0
        self.change_count = 0
        self._first_us: int | None = None
        self._last_us = 0

    def add(
        self, layout: RowLayout, message: bytes, at_us: int, *, is_serial: bool = False
    ) -> None:
        """Add a change of a table."""
        if self._first_us is None:
            self._first_us = at_us
        self._last_us = max(self._last_us, at_us)
        number = SERIAL_BUCKET if is_serial or self.is_serial else self._bucket_of(layout.name)
        if is_serial and not self.is_serial:
            self._turn_serial()
        own = self._buckets.setdefault(number, _Bucket())
        if own.relations.get(layout.oid) != layout.relation:
            own.relations[layout.oid] = layout.relation
            own.messages.append(layout.relation)
            self.byte_count += len(layout.relation)
        own.messages.append(message)
        own.change_count += 1
        self.change_count += 1
        self.byte_count += len(message) + _MESSAGE_BYTES

    def parts(self, seq: int, first: Lsn, last: Lsn) -> list[SpoolPart]:
        """Return the parts of the segment between two positions."""
        kind: SegmentKind = "serial" if self.is_serial else "parallel"
        first_us = (self._first_us or 0) - _EPOCH_US
        last_us = max(first_us, self._last_us - _EPOCH_US)
        begin = writing.begin(first, last_us)
        found = sorted(self._buckets.items())
        return [
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
                is_last=number == len(found) - 1,
                payload=(pack([begin, *own.messages]),),
            )
            for number, (bucket, own) in enumerate(found)
        ]

    @property
    def commit_at(self) -> int:
        """When the newest of them happened, in microseconds since 2000."""
        return self._last_us - _EPOCH_US

    def _turn_serial(self) -> None:
        """Put what is there into one stream."""
        self.is_serial = True
        serial = _Bucket()
        for own in self._buckets.values():
            serial.messages += own.messages
            serial.relations |= own.relations
            serial.change_count += own.change_count
        self._buckets = {SERIAL_BUCKET: serial}
