"""Let replay apply changes of a table as they come again, when all of it is copied or no more is.

As long as a chunk contains changes that are still to come, that would be too early.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pgrepl.config.dsn import Endpoint
from pgrepl.config.naming import shown_name
from pgrepl.errors import TargetError, TargetUnavailable
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.parked import ParkingKind, find_kind
from pgrepl.store.progress.shard_progress import read_passed, take_positions
from pgrepl.store.resync.resync_chunks import (
    LiveCopy,
    cancel_live,
    count_left,
    end_live,
    find_live_copy,
    pass_chunks,
    read_last_chunk,
    remove_chunks,
    restart_chunks,
)
from pgrepl.store.resync.running_resyncs import ResyncRow, remove_resync
from pgrepl.store.tables.target_tables import read_versions

__all__ = ["EndedError", "Ending", "cancel_chunks"]

_POLL_S = 0.2


class EndedError(TargetError):
    """Nobody is to copy a table any more, or not under this name."""

    def __init__(self, key: tuple[str, str]) -> None:
        """Name it."""
        super().__init__(
            f"the resync of {shown_name(*key)} has ended: it was cancelled, or the table was"
            " dropped",
            hint="pgrepl status shows what is under way.",
        )


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one resync."""

    target: Connection
    endpoint: Endpoint
    resync: ResyncRow

    def find_copy(self) -> LiveCopy:
        """Return how far it is, its row locked."""
        copy = find_live_copy(
            self.target, self.resync.source_id, self.resync.key, self.resync.resync_id
        )
        if copy is None:
            raise EndedError(self.resync.key)
        return copy

    def count_left(self) -> tuple[int, int]:
        """Return how many chunks replay has still to pass, and how many keys are to be read."""
        with translated(self.endpoint, "cannot follow replay"):
            applied = read_passed(self.target, self.resync.source_id)
            # Seen after that: what waits is not applied, whatever replay has passed.
            if applied is not None and self.find_parking() is None:
                pass_chunks(self.target, self.resync.resync_id, applied)
            return count_left(self.target, self.resync.resync_id)

    def find_parking(self) -> ParkingKind | None:
        """Return why its changes wait; None: they are applied as they come."""
        return find_kind(self.target, self.resync.source_id, self.resync.key)

    def read_needed(self) -> tuple[Lsn, Lsn] | None:
        """Return what replay has passed, and what it has to pass; None: nothing any more."""
        with translated(self.endpoint, "cannot follow replay"):
            applied = read_passed(self.target, self.resync.source_id)
            needed = read_last_chunk(self.target, self.resync.resync_id)
        return None if applied is None or needed is None else (applied, needed)

    def end(self, show: Callable[[], None] | None = None) -> bool:
        """End it, if nothing is left to do after all; ``show`` shows a table that is new."""
        source_id, key = self.resync.source_id, self.resync.key
        with translated(self.endpoint, "cannot end a resync"), self.target.transaction():
            take_positions(self.target, source_id)
            copy = self.find_copy()
            if self.find_parking() is not None:
                return False
            if copy.version != read_versions(self.target, source_id, [key]).get(key):
                restart_chunks(self.target, self.resync.resync_id)
                return False
            if not copy.is_copied or self.count_left() != (0, 0):
                return False
            end_live(self.target, self.resync.resync_id)
            if show is not None:
                show()
            remove_resync(self.target, self.resync.resync_id)
            reach("resync.before_chunks_end")
        return True

    def cancel(self) -> bool:
        """End it as it is, if replay has passed all chunks, or does not get to.

        Raises
        ------
        EndedError
            when DDL has removed it, or given it another name.

        """
        with translated(self.endpoint, "cannot cancel a resync"), self.target.transaction():
            take_positions(self.target, self.resync.source_id)
            self.find_copy()
            if self.find_parking() in (None, "locked") and self.count_left()[0]:
                return False
            cancel_live(self.target, self.resync.resync_id)
            # Where foreign keys do not cascade.
            remove_chunks(self.target, self.resync.resync_id)
            remove_resync(self.target, self.resync.resync_id)
        return True


def cancel_chunks(
    target: Connection,
    endpoint: Endpoint,
    resync: ResyncRow,
    wait_s: float,
    pause: Callable[[float], None],
) -> Literal["cancelled"] | None:
    """End the resync of a table that nobody copies any more; ranges that are copied stay.

    None: DDL has removed it meanwhile, or given the table another name.

    Raises
    ------
    TargetUnavailable
        when replay does not pass its last chunk.

    """
    ending = Ending(target, endpoint, resync)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            if ending.cancel():
                return "cancelled"
        except EndedError:
            return None
        if time.monotonic() > deadline:
            raise TargetUnavailable(
                f"{endpoint}: replay does not pass the last chunk of {shown_name(*resync.key)}",
                hint="Start pgrepl receive and pgrepl replay, and run the same command again.",
            )
        pause(_POLL_S)
