"""Apply changes as they stand in the spool; a record among them that cannot be is parked alone."""

from __future__ import annotations

from pgrepl.postgres.connect import Connection
from pgrepl.replayer.chunked.apply import apply_spooled
from pgrepl.replayer.chunked.spooled import SpooledChanges
from pgrepl.replayer.parked.parking import count_conflict
from pgrepl.replayer.shard.apply import TableFailed
from pgrepl.replayer.shard.record_changes import RecordPolicy, Spooled, apply_records

__all__ = ["apply_or_park"]


def apply_or_park(connection: Connection, policy: RecordPolicy, changes: SpooledChanges) -> int:
    """Apply changes of a table inside the caller's transaction; return how many records are parked.

    Raises
    ------
    TableFailed
        when it is no record's fault; nothing of them is left.

    """
    table = changes.table
    try:
        outcome = apply_spooled(connection, policy.source_id, changes, policy.on_conflict)
    except TableFailed as failed:
        own = table.name, table.shape
        spooled = [Spooled(changes.decoder, changes.messages)]
        return apply_records(connection, policy, own, spooled, failed)
    count_conflict(connection, policy.source_id, table.name, outcome)
    return 0
