"""Events of a partition that wait for the end of their transaction.

They wait in memory up to a limit that all partitions share, and then in a file. The file has no
name and ends with the process: what was in it is read again from the topic.
"""

from __future__ import annotations

import struct
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

from pgrepl.decoding.debezium.duplicates import Newest
from pgrepl.decoding.debezium.event import Event, TransactionEnd
from pgrepl.decoding.records.serialized import Datum
from pgrepl.errors import SpoolError
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.envelopes.debezium import Change
from pgrepl.receiver.streams.record import Part, Place, Record

__all__ = ["Item", "Memory", "Run", "WaitingQueue"]

#: So much of what waits is kept in memory, of all partitions together.
_MEMORY_BYTES = 32 << 20
#: Before each record of a file: its offset, the next one, its time, the sizes of key and value.
_HEAD = struct.Struct("!qqqqq")
_NONE = -1

#: In a transaction; in none; or it could not be read, and nobody knows.
RunKind = Literal["transaction", "free", "unreadable"]


@dataclass(frozen=True, slots=True)
class Item:
    """A record that waits; without an event it could not be read, and only counts."""

    record: Record
    change: Change | None


@dataclass(slots=True)
class Run:
    """Events that follow one another in a partition, all of one transaction."""

    kind: RunKind
    xid: int | None
    last_commit: int
    first_offset: int
    #: What was known of the partition before the first of them.
    before: Newest
    #: The snapshot that they are rows of, or came after.
    snapshot_lsn: int = 0
    #: How many there are of each table.
    counts: Counter[TableName] = field(default_factory=Counter)
    byte_count: int = 0

    @property
    def count(self) -> int:
        """How many there are."""
        return self.counts.total()

    def is_of(self, end: TransactionEnd) -> bool:
        """Whether it may be in a transaction."""
        if self.kind == "unreadable":
            return True
        is_own = self.kind == "transaction" and self.xid == end.xid
        return is_own and self.last_commit < end.lsn

    def goes_on_with(self, kind: RunKind, event: Event, snapshot_lsn: int) -> bool:
        """Whether an event belongs to it."""
        mine = self.kind, self.xid, self.last_commit, self.snapshot_lsn
        return mine == (kind, event.xid, event.last_commit, snapshot_lsn)


@dataclass(slots=True)
class Memory:
    """How much waits in memory, of all partitions of a source."""

    limit_bytes: int = _MEMORY_BYTES
    byte_count: int = 0

    @property
    def is_full(self) -> bool:
        """Whether more is better kept elsewhere."""
        return self.byte_count >= self.limit_bytes


class WaitingQueue:
    """What waits of one partition, in order."""

    def __init__(
        self, place: Place, memory: Memory, read_change: Callable[[Record], Change | None]
    ) -> None:
        """Begin empty; ``read_change`` reads a record again that was in a file."""
        self.runs: deque[Run] = deque()
        self.byte_count = 0
        self._place = place
        self._memory = memory
        self._read_change = read_change
        self._items: deque[Item] = deque()
        self._file: _RecordFile | None = None

    def append(self, item: Item, before: Newest, name: TableName, snapshot_lsn: int) -> None:
        """Let a record wait; ``before``: what was known of the partition before it."""
        record, change = item.record, item.change
        run = self._run_of(item, before, snapshot_lsn)
        run.counts[name if change is None else change.name] += 1
        run.byte_count += record.size
        self.byte_count += record.size
        if self._file is None and not self._memory.is_full:
            self._items.append(item)
            self._memory.byte_count += record.size
            return
        if self._file is None:
            self._file = _RecordFile(self._place)
        self._file.append(record)

    def counts_of(self, end: TransactionEnd) -> Counter[TableName]:
        """Return how many events stand first that may be of a transaction, by table."""
        found: Counter[TableName] = Counter()
        for run in self.runs:
            if not run.is_of(end):
                break
            found += run.counts
        return found

    def pop(self) -> Iterator[Item]:
        """Take the first run out; its records must be read before anything else is done here."""
        run = self.runs.popleft()
        self.byte_count -= run.byte_count
        return self._take(run, run.count)

    def close(self) -> None:
        """Let go of all of it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _run_of(self, item: Item, before: Newest, snapshot_lsn: int) -> Run:
        """Return the run that a record belongs to, a new one where there is none."""
        offset = item.record.offset
        if item.change is None:
            self.runs.append(Run("unreadable", None, 0, offset, before, snapshot_lsn))
            return self.runs[-1]
        event = item.change.event
        kind: RunKind = "free" if event.order is None else "transaction"
        if not self.runs or not self.runs[-1].goes_on_with(kind, event, snapshot_lsn):
            new = Run(kind, event.xid, event.last_commit, offset, before, snapshot_lsn)
            self.runs.append(new)
        return self.runs[-1]

    def _take(self, run: Run, count: int) -> Iterator[Item]:
        for _ in range(count):
            if self._items:
                item = self._items.popleft()
                self._memory.byte_count -= item.record.size
                yield item
                continue
            if self._file is None:
                raise AssertionError("a run has as many records as it counts")
            record = self._file.read()
            if self._file.is_empty:
                self._file.close()
                self._file = None
            is_read = run.kind != "unreadable"
            yield Item(record, self._read_change(record) if is_read else None)


class _RecordFile:
    """Records in a file without a name: written at its end, read from its beginning."""

    def __init__(self, place: Place) -> None:
        self._place = place
        with _told():
            self._file: BinaryIO = tempfile.TemporaryFile(prefix="pgrepl-waiting-")  # noqa: SIM115  it lives on
        self._is_writing = True
        self._read_at = self._end = 0

    @property
    def is_empty(self) -> bool:
        return self._read_at == self._end

    def append(self, record: Record) -> None:
        parts = _bytes(record.key), _bytes(record.value)
        head = _HEAD.pack(
            *(record.offset, record.next_offset, record.at_us),
            *(_NONE if part is None else len(part) for part in parts),
        )
        with _told():
            if not self._is_writing:
                self._file.seek(self._end)
                self._is_writing = True
            self._end += self._file.write(head)
            for part in parts:
                self._end += self._file.write(part or b"")

    def read(self) -> Record:
        with _told():
            if self._is_writing:
                self._file.seek(self._read_at)
                self._is_writing = False
            head = self._file.read(_HEAD.size)
            offset, following, at_us, *sizes = _HEAD.unpack(head)
            key, value = (None if size == _NONE else self._file.read(size) for size in sizes)
        self._read_at += _HEAD.size + len(key or b"") + len(value or b"")
        return Record(self._place, offset, following, key, value, at_us)

    def close(self) -> None:
        # What it could not write before it cannot now; nobody reads it.
        with suppress(OSError):
            self._file.close()


def _bytes(part: Part) -> bytes | None:
    if isinstance(part, Datum):
        raise AssertionError("only topics have a transaction topic")  # noqa: TRY004  a bug
    return part


@contextmanager
def _told() -> Iterator[None]:
    """Raise what the file system says as an error that tells what to do."""
    try:
        yield
    except OSError as exc:
        raise SpoolError(
            f"a transaction that waits for its end cannot be kept in {tempfile.gettempdir()}:"
            f" {exc.strerror}",
            hint="Make room there, or have TMPDIR name another folder.",
        ) from exc
