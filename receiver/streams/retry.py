"""Parked records, read once more: which may still be received, and which a later one replaced.

A record is received late only where nothing of its row was received after it: everything after it
is read again, up to where the target is, and a later record of its key supersedes it. One that is
parked itself was not received; one that leaves values as they were supersedes only the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from pgrepl.decoding.records.values import UNFORESEEN, json_text, why_unreadable
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.streams.changes import Gathered
from pgrepl.receiver.streams.envelopes.envelope import EnvelopeReader, RowId
from pgrepl.receiver.streams.intake import Intake
from pgrepl.receiver.streams.layouts import TableMissingError
from pgrepl.receiver.streams.record import Place, Record

__all__ = ["Candidates", "History", "Outcome", "Past", "Verdict"]

#: More of them are not kept in memory.
_LIMIT_BYTES = 32 << 20

#: Received now; a later one of its key was received; or it still cannot be, for a reason.
Verdict = Literal["received", "superseded", "parked"]


class History(Protocol):
    """Reads again what was received."""

    def read(self, place: Place, first: int) -> Iterable[Record]:
        """Return what was received of the stream that a partition is in, from an offset of it on.

        Records of other partitions come too where they may be about the same rows.
        """

    def has(self, place: Place, offset: int) -> bool:
        """Whether records at an offset are kept still; not, whether there is one."""


class Past(NamedTuple):
    """What was received of a source, and what takes records of it."""

    envelope: EnvelopeReader
    intake: Intake
    history: History


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a parked record."""

    place: Place
    offset: int
    verdict: Verdict
    reason: str = ""


@dataclass(slots=True)
class _Candidate:
    record: Record | None = None
    row: RowId | None = None
    #: Why it cannot be received, or what came after it.
    outcome: Outcome | None = None
    #: Of its columns those that no later record has a value of; None: there was none.
    left: frozenset[str] | None = None


@dataclass(slots=True)
class Candidates:
    """The parked records of one partition."""

    envelope: EnvelopeReader
    place: Place
    offsets: Sequence[int]
    #: Whether a record waits to be received, of whatever partition.
    is_parked: Callable[[Place, int], bool]
    limit_bytes: int = _LIMIT_BYTES
    #: Those that had no room, the next to be judged.
    late: list[int] = field(default_factory=list)
    _byte_count: int = 0
    _all: dict[int, _Candidate] = field(default_factory=dict)
    _open: dict[str, list[int]] = field(default_factory=dict)
    #: Up to where in the source's log nothing of a table is open.
    _closed: dict[TableName, int] = field(default_factory=dict)

    def judge(self, history: History) -> None:
        """Read what is there, and find out which of them may be received."""
        self._all = {offset: _Candidate() for offset in self.offsets}
        kept = [offset for offset in self.offsets if history.has(self.place, offset)]
        for offset in set(self.offsets) - set(kept):
            self._settle(offset, "parked", _DELETED)
        if kept:
            for record in history.read(self.place, min(kept)):
                own = self._all.get(record.offset) if record.place == self.place else None
                if own is not None:
                    self._take_candidate(record, own)
                else:
                    self._take_other(record)
        for offset in kept:
            if offset in self.late:
                continue
            if self._all[offset].record is None:
                # Only a later one of its key makes compaction remove it.
                self._settle(offset, "superseded", "it was removed by compaction")
            elif self._all[offset].left and self._all[offset].outcome is None:
                self._settle(offset, "parked", _LEFT)

    def gather(self, gathered: Gathered) -> list[Outcome]:
        """Gather what may be received, and return what became of each."""
        for offset, own in self._all.items():
            if own.outcome is not None or own.record is None:
                continue
            try:
                self.envelope.take_again(own.record, gathered)
                self._settle(offset, "received", "")
            except UNFORESEEN as exc:
                self._settle(offset, "parked", why_unreadable(exc))
            except TableMissingError as exc:
                reason = f"the target has no table {'.'.join(exc.name)}"
                self._settle(offset, "parked", reason)
        self.envelope.end_again(gathered)
        return [own.outcome for own in self._all.values() if own.outcome is not None]

    def _settle(self, offset: int, verdict: Verdict, reason: str) -> None:
        self._all[offset].outcome = Outcome(self.place, offset, verdict, reason)

    def _take_candidate(self, record: Record, own: _Candidate) -> None:
        if self._byte_count >= self.limit_bytes:
            self.late.append(record.offset)
            return
        self._byte_count += record.size
        own.record = record
        if record.problem is not None:
            self._settle(record.offset, "parked", record.problem)
            return
        try:
            own.row = self.envelope.row_of(record)
        except UNFORESEEN as exc:
            self._settle(record.offset, "parked", why_unreadable(exc))
            return
        if own.row.key is None:
            reason = "it has no key, so that nothing tells whether a later record is of its row"
            self._settle(record.offset, "parked", reason)
            return
        self._open.setdefault(_text(own.row), []).append(record.offset)
        self._closed.pop(own.row.table, None)

    def _take_other(self, record: Record) -> None:
        """Find what a record supersedes that was received."""
        with suppress(*UNFORESEEN):
            row = self.envelope.row_of(record)
            before = self._before(row) if row.is_whole_table else ()
            same = () if row.key is None else self._open.get(_text(row), ())
            if not (before or same) or self.is_parked(record.place, record.offset):
                return
            where = f"partition {record.place[1]}, offset {record.offset}"
            if record.place[0] != self.place[0]:
                where = f"{record.place[0]}, offset {record.offset}"
            for offset in before:
                self._close(offset, f"the whole table was replaced at {where}")
            for offset in [own for own in same if own not in before]:
                if self._is_replaced(self._all[offset], row):
                    self._close(offset, f"a later record of its key is at {where}")

    def _is_replaced(self, own: _Candidate, later: RowId) -> bool:
        """Whether nothing is left of a candidate after a later record of its row."""
        if own.row is None or (later.is_tombstone and own.row.is_delete):
            # It says the same, and did nothing where the delete was to do it.
            return False
        left = later.open_columns - own.row.open_columns
        own.left = left if own.left is None else left & own.left
        return not own.left

    def _before(self, row: RowId) -> Sequence[int]:
        """Return the candidates that a whole table was replaced after."""
        if self._closed.get(row.table, -1) >= row.lsn:
            # Of the many rows of a snapshot the first has said it.
            return ()
        found = ((offset, self._all[offset].row) for own in self._open.values() for offset in own)
        before = [
            offset
            for offset, own in found
            if own is not None and own.table == row.table and own.lsn < row.lsn
        ]
        if not before:
            self._closed[row.table] = row.lsn
        return before

    def _close(self, offset: int, reason: str) -> None:
        row = self._all[offset].row
        if row is not None:
            text = _text(row)
            self._open[text].remove(offset)
            if not self._open[text]:
                del self._open[text]
        self._settle(offset, "superseded", reason)


_LEFT = (
    "a later record of its key was received, which leaves values as they were that this one has:"
    " received now it would replace newer ones. Set them on the target by hand, and forget it"
)
_DELETED = "it is deleted from its topic, so that nothing tells what came after it"


def _text(row: RowId) -> str:
    """Return a key as a text that is the same for the same key."""
    key: Mapping[str, object] = row.key or {}
    return json_text([list(row.table), dict(sorted(key.items()))])
