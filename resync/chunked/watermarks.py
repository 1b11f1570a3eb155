"""Snapshots of a source, each with a position that everything it sees committed before."""

from __future__ import annotations

from pgrepl.lsn import end_of_wal
from pgrepl.postgres.connect import Connection
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

    def take(self, source: Connection) -> CopyStart:
        """Return the snapshot of the transaction that is open, or one of this moment."""
        # The position is read after the snapshot is taken.
        ((snapshot, lsn),) = source.execute(
            "select pg_current_snapshot()::text, pg_current_wal_insert_lsn()"
        ).fetchall()
        if self._last is None or self._last.snapshot != snapshot:
            self._last = CopyStart(end_of_wal(lsn), snapshot)
        return self._last
