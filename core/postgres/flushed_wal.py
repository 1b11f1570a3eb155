"""Whether what a session sees is on the server's disk, or could be undone by a crash.

A transaction with ``synchronous_commit = off`` is seen by others before its WAL is on disk. A crash
undoes it, and gives its number and its place in the WAL to others. A copy that has its rows would
keep them, and would take changes of the others for its own.
"""

from __future__ import annotations

import time

from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection

__all__ = ["is_flushed"]

#: PostgreSQL: a commit is on disk after three times that, whoever did not wait for it.
_DELAYS = 3


def is_flushed(connection: Connection, lsn: Lsn, since: float) -> bool:
    """Whether all commits before a position, which was read at ``since``, are on disk.

    What else stands on the last page may stay in the memory of an idle server for long. Whole
    pages are written as they come: as long as one is not, the WAL writer is late.
    """
    ((flushed, page_bytes, delay_ms),) = connection.execute(
        "select pg_current_wal_flush_lsn(), current_setting('wal_block_size')::integer,"
        " (select setting::integer from pg_settings where name = 'wal_writer_delay')"
    ).fetchall()
    if flushed >= lsn:
        return True
    is_late = flushed < lsn - lsn % page_bytes
    return not is_late and time.monotonic() - since > _DELAYS * delay_ms / 1000
