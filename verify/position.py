"""The positions that a comparison waits for."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import TargetError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.shard_progress import has_passed

__all__ = ["Follower", "end_of_wal"]

_POLL_S = 0.1
_PAGE_BYTES = 8192
#: Lengths of the headers of a WAL page, and of the first one of a file.
_PAGE_HEADERS = (24, 40)


def end_of_wal(insert_lsn: int) -> Lsn:
    """Return where the WAL ends when the next record would begin at this position.

    At the end of a page the next record begins after the header of the next page, which is not
    there yet: an idle source would never send so far.
    """
    within = insert_lsn % _PAGE_BYTES
    return Lsn(insert_lsn - within if within in _PAGE_HEADERS else insert_lsn)


def _note_position(connection: Connection, endpoint: Endpoint) -> Lsn:
    """Return a position after everything that a reader of the source has seen by now."""
    with translated(endpoint, "cannot read its position"):
        ((lsn,),) = connection.execute("select pg_current_wal_insert_lsn()").fetchall()
    return end_of_wal(lsn)


@dataclass(frozen=True, slots=True)
class Follower:
    """Waits for the target."""

    connection: Connection
    endpoint: Endpoint
    source_id: int
    patience_s: float

    def catch_up(self, source: Connection, origin: Endpoint) -> TargetError | None:
        """Wait until the target shows what the source shows now, or return that it does not."""
        lsn = _note_position(source, origin)
        if self._wait(lsn):
            return None
        return TargetError(
            f"{self.endpoint}: did not pass {lsn} of {origin} in {self.patience_s:g} s, so that not"
            " everything could be judged",
            hint="Run pgrepl receive and pgrepl replay, or give them longer with --wait.",
        )

    def _wait(self, lsn: Lsn) -> bool:
        deadline = time.monotonic() + self.patience_s
        while True:
            with translated(self.endpoint, "cannot follow the replication"):
                is_passed = has_passed(self.connection, self.source_id, lsn)
            if is_passed:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
