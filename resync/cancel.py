"""Cancel resyncs: the tables are again what they were before, and go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Literal

from psycopg.sql import SQL, Identifier

from pgrepl.config.model import Config, SourceConfig
from pgrepl.config.naming import TableSelection, shown_name
from pgrepl.errors import PgreplError, TargetUnavailable, UsageError
from pgrepl.failpoint import reach
from pgrepl.postgres.advisory_locks import resync_lock, resync_run_lock, try_lock
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.session import open_session
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.resync.chunked import cancel_chunks
from pgrepl.resync.joining.join import hidden_name
from pgrepl.resync.release import apply_waiting, retry_waiting
from pgrepl.resync.whole.shadow import drop_shadow
from pgrepl.store.migrations import migrate
from pgrepl.store.parked import find_kind, follow_parking, unpark
from pgrepl.store.progress.shard_progress import take_positions
from pgrepl.store.resync.resync_chunks import remove_chunks
from pgrepl.store.resync.running_resyncs import (
    ResyncRow,
    ask_cancel,
    find_resync,
    read_resyncs,
    remove_resync,
)
from pgrepl.store.sources import find_source, read_target_schemas
from pgrepl.store.tables.copy_work import remove_parts
from pgrepl.store.tables.source_tables import remove_table_row, restore_table

__all__ = ["CancelOutcome", "cancel_tables"]

CancelOutcome = Literal["cancelled", "done already"]

_POLL_S = 0.2


def cancel_tables(
    config: Config,
    source: SourceConfig,
    selection: TableSelection,
    wait_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> Mapping[tuple[str, str], CancelOutcome]:
    """End the resyncs of some tables, whoever runs them, and put the tables back.

    Raises
    ------
    UsageError
        when there is none.
    TargetUnavailable
        when whoever copies a table does not end.

    """
    endpoint = config.target.endpoint
    with closing(open_session(endpoint, ReplaySettings())) as target:
        migrate(target, endpoint)
        with translated(endpoint, "cannot cancel"):
            row = find_source(target, source.name)
            rows: Sequence[ResyncRow] = () if row is None else read_resyncs(target, row.source_id)
            chosen = [resync for resync in rows if selection.matches(*resync.key)]
            if row is None or not chosen:
                raise UsageError(
                    f'no resync of source "{source.name}" is under way for the names given',
                    hint="pgrepl status shows those that are.",
                )
            ask_cancel(target, row.source_id, [resync.key for resync in chosen])
            deadline = time.monotonic() + wait_s
            outcomes: dict[tuple[str, str], CancelOutcome] = {}
            for resync in chosen:
                locks = resync_lock(source.name, resync.key), resync_run_lock(resync.resync_id)
                while not all(try_lock(target, lock) for lock in locks):
                    if time.monotonic() > deadline:
                        raise TargetUnavailable(
                            f"{endpoint}: the resync of {shown_name(*resync.key)} does not end",
                            hint="It is asked to, and will; it is put back by the same command.",
                        )
                    pause(_POLL_S)
                found = find_resync(target, row.source_id, resync.key)
                if (
                    found is not None
                    and found.way == "chunked"
                    and found.state != "requested"
                    and not found.is_first
                ):
                    cancel_chunks(target, endpoint, found, wait_s, pause)
                    outcomes[resync.key] = "cancelled"
                    continue
                outcomes[resync.key] = _put_back(config, source, target, resync.key, row.source_id)
    return outcomes


def _put_back(
    config: Config,
    source: SourceConfig,
    target: Connection,
    key: tuple[str, str],
    source_id: int,
) -> CancelOutcome:
    resync = find_resync(target, source_id, key)
    if resync is None or (resync.state == "catching up" and resync.way == "whole"):
        # The rows are in place: all that is left is what waited.
        if resync is not None and find_kind(target, source_id, key) == "resync":
            apply_waiting(config, target, source.name, [key])
        return "done already"
    is_live = resync.state_before == "ready"
    failed: PgreplError | None = None
    with target.transaction():
        # As replay does: first who is parked, then where it stands.
        follow_parking(target, source_id)
        # Who applies changes of a new table in chunks has it in hand no more.
        take_positions(target, source_id)
        remove_chunks(target, resync.resync_id)
        remove_parts(target, source_id, [key])
        drop_shadow(target, resync.resync_id)
        if resync.is_first:
            _drop_hidden(target, resync)
        is_parked_by_us = find_kind(target, source_id, key) == "resync"
        if resync.state == "requested":
            pass
        elif resync.state_before is None:
            remove_table_row(target, source_id, key)
        else:
            restore_table(target, source_id, key, resync.state_before, resync.reason_before)
        if is_parked_by_us and not is_live:
            # Its changes were passed over before, too.
            unpark(target, source_id, key)
        remove_resync(target, resync.resync_id)
        if is_parked_by_us and is_live:
            # Together with what is put back: nobody else would go on with the table.
            try:
                retry_waiting(config, target, source.name, key)
            except PgreplError as exc:
                failed = exc
        reach("resync.before_cancel_commit")
    reach("resync.cancelled")
    if failed is not None:
        raise failed
    return "cancelled"


def _drop_hidden(target: Connection, resync: ResyncRow) -> None:
    """Drop a new table that nobody has seen, and the root that was made for it alone."""
    schema = read_target_schemas(target, resync.source_id).get(resync.schema_name)
    if schema is None:
        return
    place = Identifier(schema, hidden_name(resync.source_oid))
    target.execute(SQL("drop table if exists {}").format(place))
    empty = target.execute(
        "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = %s and c.relkind = 'p' and c.relname ~ '^pgrepl_shadow_[0-9]+$'"
        " and not exists (select from pg_inherits i where i.inhparent = c.oid)",
        (schema,),
    ).fetchall()
    for (name,) in empty:
        target.execute(SQL("drop table {}").format(Identifier(schema, name)))
