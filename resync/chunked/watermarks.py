"""Snapshots of a source, each with a position that everything it sees committed before."""

from __future__ import annotations

import time

from pgrepl.lsn import end_of_wal
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.flushed_wal import is_flushed
from pgrepl.store.tables.copy_start import CopyStart

__all__ = ["Watermarks"]


class Watermarks:
    """The snapshots of one resync.

    As long as no transaction ends, all snapshots are the same one, and what it sees committed
    before the first of their positions. What was written since may stay in the memory of an idle
    source for long, and would be waited for.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._last: CopyStart | None = None
        self._taken_at = 0.0

    def take(self, source: Connection) -> CopyStart:
        """Return the snapshot of the transaction that is open, or one of this moment."""
        # The position is read after the snapshot is taken.
        ((snapshot, lsn),) = source.execute(
            "select pg_current_snapshot()::text, pg_current_wal_insert_lsn()"
        ).fetchall()
        if self._last is None or self._last.snapshot != snapshot:
            self._last = CopyStart(end_of_wal(lsn), snapshot)
            self._taken_at = time.monotonic()
        return self._last

    def is_lasting(self, source: Connection) -> bool:
        """Whether no crash can undo what the last snapshot sees; asked by the same session."""
        return self._last is None or is_flushed(source, self._last.lsn, self._taken_at)
