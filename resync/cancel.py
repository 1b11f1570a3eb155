"""Cancel resyncs: the tables are again what they were before, and go on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Literal

from pgrepl.config.model import Config, SourceConfig
from pgrepl.config.naming import TableSelection, shown_name
from pgrepl.errors import PgreplError, TargetUnavailable, UsageError
from pgrepl.failpoint import reach
from pgrepl.postgres.advisory_locks import (
    find_holder,
    resync_lock,
    resync_run_lock,
    try_lock,
)
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.session import open_session
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.resync.chunked import cancel_chunks
from pgrepl.resync.release import apply_waiting, retry_waiting
from pgrepl.resync.waiting import TOLD_AFTER_S, saying_for_whom
from pgrepl.resync.whole.shadow import drop_shadow
from pgrepl.store.migrations import migrate
from pgrepl.store.parked import find_kind, follow_parking, unpark
from pgrepl.store.progress.shard_progress import take_positions
from pgrepl.store.resync.joins import drop_hidden, drop_hidden_roots
from pgrepl.store.resync.resync_chunks import remove_chunks
from pgrepl.store.resync.running_resyncs import (
    ResyncRow,
    ask_cancel,
    find_resync_now,
    read_resyncs,
    remove_resync,
)
from pgrepl.store.sources import find_source
from pgrepl.store.tables.copy_work import remove_parts
from pgrepl.store.tables.source_tables import remove_table_row, restore_table

__all__ = ["CancelOutcome", "cancel_tables"]

CancelOutcome = Literal["cancelled", "done already"]

logger = logging.getLogger(__name__)

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
            ask_cancel(target, [resync.resync_id for resync in chosen])
            deadline = time.monotonic() + wait_s
            outcomes: dict[tuple[str, str], CancelOutcome] = {}
            for resync in chosen:
                _take_over(target, source, resync, deadline, pause)
                outcomes[resync.key] = _end(config, source, target, resync, (wait_s, pause))
    return outcomes


def _take_over(
    target: Connection,
    source: SourceConfig,
    resync: ResyncRow,
    deadline: float,
    pause: Callable[[float], None],
) -> None:
    """Wait until whoever copies a table has ended, and take its resync in hand.

    Raises
    ------
    TargetUnavailable
        when that one does not end in time.

    """
    told_at = time.monotonic() + TOLD_AFTER_S
    is_told = False
    while not _is_ours(target, source, resync):
        now, pid = time.monotonic(), find_holder(target, resync_run_lock(resync.resync_id))
        held = "" if pid is None else f", which process {pid} runs,"
        if now > deadline:
            raise TargetUnavailable(
                f"the resync of {shown_name(*resync.key)}{held} does not end",
                hint="It is asked to, and will; it is put back by the same command.",
            )
        if now > told_at and pid is not None and not is_told:
            is_told = True
            logger.warning(
                "cancelling the resync of %s waits for process %s", shown_name(*resync.key), pid
            )
        pause(_POLL_S)


def _is_ours(target: Connection, source: SourceConfig, resync: ResyncRow) -> bool:
    """Take a resync in hand, by the name that its table has now; False: another session has it."""
    if not try_lock(target, resync_run_lock(resync.resync_id)):
        return False
    now = find_resync_now(target, resync.resync_id)
    return now is None or try_lock(target, resync_lock(source.name, now.key))


def _end(
    config: Config,
    source: SourceConfig,
    target: Connection,
    asked: ResyncRow,
    waiting: tuple[float, Callable[[float], None]],
) -> CancelOutcome:
    """End a resync that nobody runs, under whatever name DDL gives its table meanwhile."""
    while (resync := find_resync_now(target, asked.resync_id)) is not None:
        is_live = resync.way == "chunked" and resync.state != "requested" and not resync.is_first
        outcome = (
            cancel_chunks(target, config.target.endpoint, resync, *waiting)
            if is_live
            else _put_back(config, source, target, resync)
        )
        if outcome is not None:
            return outcome
    return "done already"


def _put_back(
    config: Config, source: SourceConfig, target: Connection, resync: ResyncRow
) -> CancelOutcome | None:
    """Put a table back; None: DDL has given it another name, or another state, meanwhile."""
    if resync.state == "catching up" and resync.way == "whole":
        _let_go_on(config, source, target, resync)
        return "done already"
    failed: PgreplError | None = None
    with target.transaction():
        if not _take_in_hand(config, target, resync):
            return None
        is_parked_by_us = find_kind(target, resync.source_id, resync.key) == "resync"
        is_live = resync.state_before == "ready"
        _remove_copy(target, resync)
        if is_parked_by_us and not is_live:
            # Its changes were passed over before, too.
            unpark(target, resync.source_id, resync.key)
        remove_resync(target, resync.resync_id)
        drop_hidden_roots(target, resync.source_id)
        if is_parked_by_us and is_live:
            # Together with what is put back: nobody else would go on with the table.
            try:
                retry_waiting(config, target, source.name, resync.key)
            except PgreplError as exc:
                failed = exc
        reach("resync.before_cancel_commit")
    reach("resync.cancelled")
    if failed is not None:
        raise failed
    return "cancelled"


def _let_go_on(config: Config, source: SourceConfig, target: Connection, resync: ResyncRow) -> None:
    """Let a table go on whose rows are in place: all that is left is what waited."""
    if find_kind(target, resync.source_id, resync.key) == "resync":
        apply_waiting(config, target, source.name, [resync.key])
    else:
        # Or that could not be applied, and the table is parked for it.
        remove_resync(target, resync.resync_id)


def _take_in_hand(config: Config, target: Connection, resync: ResyncRow) -> bool:
    """Keep replay from a table until the transaction ends; False: DDL has changed its resync."""
    endpoint = config.target.endpoint
    # As replay does: first who is parked, then where it stands.
    follow_parking(target, resync.source_id)
    # Who applies changes of a new table in chunks has it in hand no more.
    with saying_for_whom((endpoint, target), endpoint, ()):
        take_positions(target, resync.source_id)
    now = find_resync_now(target, resync.resync_id)
    return now is not None and (now.key, now.state) == (resync.key, resync.state)


def _remove_copy(target: Connection, resync: ResyncRow) -> None:
    """Remove what a resync has made, and say of its table again what was said before."""
    source_id, key = resync.source_id, resync.key
    remove_chunks(target, resync.resync_id)
    remove_parts(target, source_id, [key])
    drop_shadow(target, resync.resync_id)
    drop_hidden(target, resync.resync_id)
    if resync.state == "requested":
        return
    if resync.state_before is None:
        remove_table_row(target, source_id, key)
    else:
        restore_table(target, source_id, key, resync.state_before, resync.reason_before)
