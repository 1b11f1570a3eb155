"""Batch consistency: what the shards have staged becomes visible in one target transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psycopg.rows import scalar_row
from psycopg.sql import SQL, Identifier

from pgrepl.config.model import OnConflict, OnError
from pgrepl.decoding.payload import ChangesByTable
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.batches import Batch
from pgrepl.replayer.chunked.apply import apply_live
from pgrepl.replayer.chunked.spooled import SpooledChanges
from pgrepl.replayer.parked.parking import add_parts, count_conflict, park
from pgrepl.replayer.session import limit_waits
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.apply import (
    TableFailed,
    TableLocked,
    apply_changes,
    merge_staging,
)
from pgrepl.replayer.shard.merging.merge_sets import Outcome
from pgrepl.replayer.shard.record_changes import RecordPolicy, apply_records, read_spooled
from pgrepl.replayer.shard.shard_result import Parking, ShardResult, StagedTable
from pgrepl.replayer.shard.task import stop_at
from pgrepl.replayer.target_table import Table, Tables
from pgrepl.store.parked import follow_parking
from pgrepl.store.progress.shard_progress import move_all, remove_applied
from pgrepl.store.sources import SourceRow
from pgrepl.store.spool.spool_rows import read_part
from pgrepl.store.tables.source_tables import add_unknown_table

__all__ = ["drop_staging", "merge_batch", "staging_prefix"]

_STAGING = "stage_"


def staging_prefix(source_id: int) -> str:
    """Return how the names of a source's staging tables begin, in schema replication."""
    return f"{_STAGING}{source_id}_"


def merge_batch(
    connection: Connection,
    source: SourceRow,
    batch: Batch,
    results: Sequence[ShardResult],
    *,
    on_error: OnError,
    on_conflict: OnConflict,
    settings: ReplaySettings,
) -> list[Parking]:
    """Apply all that a source's batch staged, move its shards and remove its spool, at once."""
    parked: list[Parking] = []
    source_id = source.source_id
    policy = RecordPolicy(source_id, on_error, on_conflict)
    with connection.transaction():
        follow_parking(connection, source_id)
        move_all(connection, source_id, batch.from_seq, batch.to_seq, batch.last_lsn)
        tables = Tables(connection, source_id, batch.first_lsn)
        for staged in (table for result in results for table in result.staged):
            table = tables.look_up(staged.name)
            if table.is_parked:
                add_parts(connection, source_id, staged.name, staged.keys)
            elif not table.is_copied:
                add_unknown_table(connection, source_id, staged.name)
            else:
                # All other sources wait as long. The locks of a copy in chunks are over soon.
                is_live = table.is_live or staged.is_live
                limit_waits(
                    connection, settings.lock_timeout_s if is_live else settings.table_lock_s
                )
                try:
                    parked += _apply_or_park(connection, policy, table, staged)
                except TableLocked as locked:
                    # Without it readers would see a part of transactions.
                    raise locked.error from locked
                except TableFailed as failed:
                    if on_error == "stop":
                        raise stop_at(source.name, staged.name, failed) from failed
                    if park(connection, source_id, staged.name, failed):
                        add_parts(connection, source_id, staged.name, staged.keys)
                        parked.append(Parking(staged.name, failed.reason))
                    tables.forget()
        drop_staging(connection, source_id)
        remove_applied(connection, source_id)
        reach("replayer.before_merge_commit")
    reach("replayer.after_merge_commit")
    return parked


def _apply_or_park(
    connection: Connection, policy: RecordPolicy, table: Table, staged: StagedTable
) -> list[Parking]:
    """Apply what is staged; of records that cannot be applied each is parked alone."""
    source_id, name = policy.source_id, table.name
    try:
        outcome = _apply(connection, source_id, table, staged, policy.on_conflict)
    except TableFailed as failed:
        spooled = read_spooled(connection, source_id, name, staged.keys)
        count = apply_records(connection, policy, (name, table.shape), spooled, failed)
        return [Parking(name, record_count=count)] if count else []
    count_conflict(connection, source_id, name, outcome)
    return []


def _apply(
    connection: Connection,
    source_id: int,
    table: Table,
    staged: StagedTable,
    on_conflict: OnConflict,
) -> Outcome:
    """Apply what is staged; of a table that is another one by now, what the spool has for it."""
    if table.is_live:
        return _apply_live(connection, source_id, table, staged)
    if not staged.is_for(table):
        # It was parked or copied in chunks then, or is copied again since: what its rows hold by
        # now is not told twice, and the next batch must not overtake this one.
        return _apply_spooled(connection, source_id, table, staged, on_conflict)
    if staged.staging is None:
        raise staged.failed or AssertionError("what is not staged has failed")
    return merge_staging(connection, staged.staging, on_conflict)


def _apply_live(
    connection: Connection, source_id: int, table: Table, staged: StagedTable
) -> Outcome:
    """Apply changes of a table that is copied in chunks, as far as those do not contain them."""
    for key in staged.keys:
        part = read_part(connection, source_id, key)
        messages = part.decoder.extract(part.payload, table.name)
        apply_live(connection, source_id, SpooledChanges(table, part.decoder, messages))
    return Outcome()


def _apply_spooled(
    connection: Connection,
    source_id: int,
    table: Table,
    staged: StagedTable,
    on_conflict: OnConflict,
) -> Outcome:
    """Apply changes of a table out of the spool, but for those that its copy contains."""
    other = replace(table, is_parked=True)
    grouped: ChangesByTable | None = None
    for key in staged.keys:
        part = read_part(connection, source_id, key)
        if grouped is None:
            # The parts of a chunk have one format.
            grouped = part.decoder.group_by_table(
                lambda name: table if name == table.name else other
            )
        grouped.take_payload(part.payload, part.change_count, part.bucket)
    changes = None if grouped is None else grouped.changes.get(table.name)
    if changes is None or not (changes.runs or changes.problem):
        return Outcome()
    return apply_changes(connection, changes, on_conflict)


def drop_staging(connection: Connection, source_id: int) -> None:
    """Drop staging tables: those just merged, or those of a run that was killed."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        names = cursor.execute(
            "select c.relname::text from pg_class c"
            " where c.relnamespace = 'replication'::regnamespace and c.relkind = 'r'"
            " and starts_with(c.relname, %s)",
            (staging_prefix(source_id),),
        ).fetchall()
    if names:
        tables = SQL(", ").join(Identifier("replication", name) for name in names)
        connection.execute(SQL("drop table {}").format(tables))
