"""Resyncs of tables that do not exist any more: what a run that was killed, or overtaken, left.

DDL that replay applies carries a resync that is noted, or removes it. It knows nothing of one that
is noted after it: a table may be dropped or renamed on the source, and here too, between the moment
when a run finds it and the moment when it takes it in hand.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from pgrepl.config.naming import shown_name
from pgrepl.postgres.advisory_locks import copy_lock, try_transaction_share
from pgrepl.postgres.connect import Connection
from pgrepl.resync.whole.shadow import drop_shadow
from pgrepl.store.parked import find_kind, follow_parking, unpark
from pgrepl.store.parked_ddl import find_group
from pgrepl.store.progress.shard_progress import take_positions
from pgrepl.store.resync.interrupted import try_resync_locks
from pgrepl.store.resync.joins import drop_hidden, drop_hidden_roots
from pgrepl.store.resync.resync_chunks import remove_chunks
from pgrepl.store.resync.running_resyncs import (
    ResyncRow,
    find_resync_now,
    read_resyncs,
    remove_resync,
)
from pgrepl.store.sources import SourceRow
from pgrepl.store.tables.copy_work import remove_parts
from pgrepl.store.tables.source_tables import read_conditions, remove_table_row

__all__ = ["forget_ended"]

logger = logging.getLogger(__name__)


def forget_ended(
    target: Connection, row: SourceRow, names: Mapping[int, tuple[str, str]]
) -> AbstractSet[int]:
    """Forget resyncs that nobody runs, of names that no table has and no DDL will carry on.

    ``names``: what the tables of the source are called now, by their OIDs. Returned are those that
    another session has in hand still.
    """
    busy: set[int] = set()
    for resync in read_resyncs(target, row.source_id):
        if names.get(resync.source_oid) == resync.key:
            continue
        with target.transaction():
            if not try_transaction_share(target, copy_lock(row.name)) or not try_resync_locks(
                target, row, resync.key
            ):
                busy.add(resync.source_oid)
            elif _forget(target, row, resync):
                logger.info(
                    "the resync of %s is forgotten: there is no such table any more",
                    shown_name(*resync.key),
                )
    return busy


def _forget(target: Connection, row: SourceRow, resync: ResyncRow) -> bool:
    source_id, key = row.source_id, resync.key
    # As replay does: first who is parked, then where it stands. No DDL is half applied then.
    follow_parking(target, source_id)
    take_positions(target, source_id)
    if find_resync_now(target, resync.resync_id) != resync:
        return False
    condition = read_conditions(target, source_id).get(key)
    is_other = condition is not None and condition.state == "ready"
    if condition is not None and not resync.is_first:
        # DDL that is still to come carries it, or drops the copy.
        return False
    if find_group(target, source_id, key).group_id is not None:
        return False
    remove_chunks(target, resync.resync_id)
    remove_parts(target, source_id, [key])
    drop_shadow(target, resync.resync_id)
    drop_hidden(target, resync.resync_id)
    if not is_other:
        if find_kind(target, source_id, key) == "resync":
            unpark(target, source_id, key)
        remove_table_row(target, source_id, key)
    remove_resync(target, resync.resync_id)
    drop_hidden_roots(target, source_id)
    return True
