"""Remove everything of a copy, and nothing that others made."""

from __future__ import annotations

from pgrepl.basebackup import copy_state
from pgrepl.catalog.slots import drop_slot
from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import SourceConfig
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.removal import check_removable
from pgrepl.store.sources import SourceRow, remove_source

__all__ = ["discard"]


def discard(
    target: Connection,
    endpoint: Endpoint,
    source_session: Connection,
    source: SourceConfig,
    row: SourceRow,
) -> None:
    """Drop schemas, origin and slot of a source, and forget it.

    Interrupted, it leaves the source in state "creating": the next run removes the rest.

    Raises
    ------
    TargetError
        when others built on the copy or in its schemas, or a receiver uses the origin.

    """
    with translated(endpoint, "cannot remove the copy"):
        check_removable(target, endpoint, row.source_id)
        # Fails while a receiver uses it, before anything is removed.
        target.execute(
            "select pg_replication_origin_drop(roname) from pg_replication_origin"
            " where roname = %s",
            (row.slot,),
        )
        reach("basebackup.old_origin_dropped")
        copy_state.forget(target, row.source_id)
        reach("basebackup.discarded")
        drop_slot(source_session, source.endpoint, row.slot)
        reach("basebackup.old_slot_dropped")
        remove_source(target, row.source_id)
