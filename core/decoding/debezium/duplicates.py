"""Which events came before: told by their positions, in constant memory for each partition.

Debezium sends events again after a crash. Where it counts the events of a transaction and goes on
counting after a restart, an event's position is the last commit before its transaction and that
count; an event at or before the newest position came before. Rows of one COPY share all else: their
LSN and their kind tell nothing. But a Debezium before 3.7 that is restarted inside of a group with
one LSN steps over the rest of it, and gives its numbers to the events that follow: within a
transaction the LSN goes before the number.

Without that count the LSN of the event stands in for it. Then positions only ever go back when
events are sent again, from there on up to the newest one, of whose LSN as many are skipped as
were seen. Debezium sends the events of one LSN again from the first: so does the newest LSN begin
again with what its first event said. Only inserts share an LSN, the rows of one COPY: a row without
a key that is like the first of them may be either, and so may what follows it at that LSN.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from pgrepl.decoding.debezium.event import Event

__all__ = ["Newest"]

#: What a field of ``Newest`` is called where it is kept: tuples have a method of that name.
_TAKEN = "count"


class Newest(NamedTuple):
    """The newest event of a partition."""

    last_commit: int = -1
    #: The count in its transaction, or its LSN.
    place: int = -1
    #: How many events with that LSN were taken. Counted events: 0.
    taken: int = 0
    #: While events come again: how many with that LSN did so far; None: nothing comes again.
    again: int | None = None
    #: The snapshot that rows are of.
    snapshot_lsn: int = 0
    #: What the first event with that LSN said. Counted events: nothing.
    first: str = ""
    #: Whether it is not known what came again of the events with that LSN.
    is_unclear: bool = False
    #: Where the transactions began of the first and the newest event since the snapshot; -1: there
    #: was none, or it is not known.
    oldest_start: int = -1
    newest_start: int = -1
    #: When the latest of them was committed, in microseconds; 0: it is not known.
    newest_us: int = 0
    #: Where a counted event stands in the log; -1: it is not known, or none was counted.
    lsn: int = -1

    @property
    def has_events(self) -> bool:
        """Whether there was an event since the snapshot."""
        return self.place >= 0

    def is_older_than(self, event: Event) -> bool:
        """Whether an event was committed after all that came: it cannot be one of them."""
        return 0 < self.newest_us < event.commit_us

    def has_only_after(self, snapshot_lsn: int) -> bool:
        """Whether there was nothing yet but events that a snapshot does not contain."""
        return not self.snapshot_lsn and self.has_events and self.oldest_start >= snapshot_lsn

    def has_some_after(self, snapshot_lsn: int) -> bool:
        """Whether there was an event that a snapshot does not contain."""
        return self.has_events and max(self.newest_start, self.last_commit) >= snapshot_lsn

    @property
    def rank(self) -> tuple[int, int, int, int, int]:
        """What is greater for the one of a stream that knows more."""
        return self.snapshot_lsn, self.last_commit, self.lsn, self.place, self.taken

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Newest:
        """Make it of what ``dump`` returned."""
        return cls(**{"taken" if name == _TAKEN else name: own for name, own in state.items()})

    def dump(self) -> dict[str, int | str | None]:
        """Return it as JSON has it."""
        return {_TAKEN if name == "taken" else name: own for name, own in self._asdict().items()}

    def leaves_open(self, event: Event) -> bool:
        """Whether an event without a key may be one that came again, and may be another row."""
        return (
            not _is_counted(event)
            and event.op == "c"
            and (event.last_commit, event.lsn) == (self.last_commit, self.place)
            and self.again is None
            and (self.is_unclear or self.first == _digest(event))
        )

    def unclear(self) -> Newest:
        """Return what is known after an event that was left open."""
        return self._replace(is_unclear=True)

    def follow(self, event: Event) -> Newest | None:
        """Return the newest event after this one; None when it came before.

        Rows of a snapshot are not asked about here: a snapshot that was begun again has another
        LSN.
        """
        if event.order is not None and event.has_lasting_order:
            if not self._is_next(event, event.order):
                return None
            new = Newest(event.last_commit, event.order, snapshot_lsn=self.snapshot_lsn)
            return self._next(event, new._replace(lsn=event.lsn))
        return self._follow_lsn(event)

    def _is_next(self, event: Event, order: int) -> bool:
        """Whether an event that is counted comes after the newest one."""
        if self.lsn >= 0 and event.last_commit == self.last_commit and event.lsn != self.lsn:
            return event.lsn > self.lsn
        return (event.last_commit, order) > (self.last_commit, self.place)

    def _follow_lsn(self, event: Event) -> Newest | None:
        position = event.last_commit, event.lsn
        mine = self.last_commit, self.place
        if position > mine:
            new = Newest(*position, 1, None, self.snapshot_lsn, _digest(event))
            return self._next(event, new)
        if position == mine and self.again is None and self.first != _digest(event):
            return self._replace(taken=self.taken + 1)
        return None

    def _next(self, event: Event, new: Newest) -> Newest:
        oldest = self.oldest_start if self.has_events else event.start
        newest_us = max(self.newest_us, event.commit_us)
        return new._replace(oldest_start=oldest, newest_start=event.start, newest_us=newest_us)

    def passed(self, event: Event) -> Newest:
        """Return what is known after an event that came before was passed over."""
        if _is_counted(event):
            return self
        if (event.last_commit, event.lsn) < (self.last_commit, self.place):
            return self._replace(again=0)
        again = (self.again or 0) + 1
        # All of them came again: what follows is new.
        return self._replace(again=None if again >= self.taken else again)


def _is_counted(event: Event) -> bool:
    return event.order is not None and event.has_lasting_order


def _digest(event: Event) -> str:
    said = repr((event.op, event.before, event.after)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(said, digest_size=8).hexdigest()
