"""What is kept for a while, and then goes."""

from __future__ import annotations

from datetime import timedelta

from pgrepl.postgres.connect import Connection
from pgrepl.store.ddl_journal import prune_ddl_history
from pgrepl.store.parked import prune_parked_history
from pgrepl.store.pauses import prune_pause_history
from pgrepl.store.progress.bindings import prune
from pgrepl.store.sources import SourceRow
from pgrepl.store.streams import prune_positions

__all__ = ["prune_history"]

#: DDL of the last day that is not in the history is taken for one that is still to come.
_DDL_KEPT = timedelta(days=2)


def prune_history(connection: Connection, source: SourceRow, kept: timedelta) -> int:
    """Remove bindings and history of a source that are older than this; return how many rows."""
    ((horizon, ddl_horizon),) = connection.execute(
        "select clock_timestamp() - %s, clock_timestamp() - %s", (kept, max(kept, _DDL_KEPT))
    ).fetchall()
    count = prune(connection, source.source_id, horizon)
    count += prune_positions(connection, source.source_id)
    count += prune_parked_history(connection, source.name, horizon)
    count += prune_pause_history(connection, source.name, horizon)
    return count + prune_ddl_history(connection, source.source_id, ddl_horizon)
