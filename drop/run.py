"""One run of drop: each side as far as it can be reached, the record of the slot last."""

from __future__ import annotations

from contextlib import ExitStack

from psycopg.sql import SQL, Composed

from pgrepl.config.model import Config, SourceConfig
from pgrepl.drop.report import DropReport, Item, Survey
from pgrepl.drop.source_side import (
    check_idle,
    check_privileges,
    check_same,
    clear_source,
    look_at_source,
    superuser_script,
)
from pgrepl.drop.target_side import clear_target, find_row, forget_source, look_at_target
from pgrepl.drop.unconfigured import unreached
from pgrepl.errors import PgreplError, SourceError, TargetError
from pgrepl.postgres.advisory_locks import copy_lock, receive_lock, take_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.sources import SourceRow

__all__ = ["drop_source", "privileged_script", "survey_source"]

_STAGE = "drop"
_LOCKING = "cannot lock the source"


def survey_source(
    config: Config,
    source: SourceConfig,
    *,
    is_source_gone: bool = False,
    has_dsn: bool = True,
) -> Survey:
    """Return what there is of a source, and change nothing."""
    # Nothing is ever made in a cluster of Kafka, or in a folder.
    is_source_gone = is_source_gone or not source.is_database
    items: list[Item] = []
    failures: list[PgreplError] = []
    row: SourceRow | None = None
    is_target_there = False
    try:
        with connect(config.target.endpoint, _STAGE) as target:
            row = find_row(target, config.target.endpoint, source.name)
            is_target_there = True
            if row is not None:
                items += look_at_target(target, config.target.endpoint, row)
    except TargetError as exc:
        failures.append(exc)
    slot = row.slot if row is not None else source.slot
    if not is_source_gone and not has_dsn:
        failures.append(unreached(config, source, row.dbname if row is not None else ""))
    elif not is_source_gone:
        try:
            if row is not None:
                check_same(source.endpoint, row)
            with connect(source.endpoint, _STAGE) as connection:
                side = look_at_source(connection, source.endpoint, slot)
            items += side.items(slot, is_ours=row is not None or not is_target_there)
        except SourceError as exc:
            failures.append(exc)
    return Survey(source.name, items, failures)


def privileged_script(config: Config, source: SourceConfig) -> list[list[Composed | SQL]]:
    """Return what a superuser has to run on the source, by transaction: what its role may not."""
    with connect(config.target.endpoint, _STAGE) as target:
        row = find_row(target, config.target.endpoint, source.name)
    slot = row.slot if row is not None else source.slot
    with connect(source.endpoint, _STAGE) as connection:
        side = look_at_source(connection, source.endpoint, slot)
    if row is not None and side.may_replicate:
        check_same(source.endpoint, row)
    return superuser_script(side, slot, is_ours=row is not None)


def drop_source(
    config: Config,
    source: SourceConfig,
    *,
    with_data: bool = False,
    is_source_gone: bool = False,
    has_dsn: bool = True,
) -> DropReport:
    """Remove a source from both sides.

    A side that does not answer is named in the report, and a later run clears it. With
    ``is_source_gone`` the source is not asked at all, and its slot is forgotten. Without a DSN it
    is not asked either, but the record of its slot stays.

    Raises
    ------
    AlreadyRunning
        when a receiver or a basebackup of the source runs; nothing is touched then.
    SourceError
        when the role on the source may not do what has to be done; nothing is touched then.
    TargetError
        when the target answers, but refuses.

    """
    is_source_gone = is_source_gone or not source.is_database
    report = DropReport(source.name)
    endpoint = config.target.endpoint
    with ExitStack() as stack:
        target: Connection | None = None
        try:
            target = stack.enter_context(connect(endpoint, _STAGE))
        except TargetError as exc:
            report.errors.append(exc)
        row = find_row(target, endpoint, source.name) if target is not None else None
        slot = row.slot if row is not None else source.slot
        if target is not None:
            with translated(endpoint, _LOCKING):
                take_lock(target, copy_lock(source.name))
        # Without a target it is unknown whose the slot is; the configuration says it is ours.
        is_ours = row is not None or target is None
        if not is_source_gone and not has_dsn:
            report.errors.append(unreached(config, source, row.dbname if row is not None else ""))
        is_source_there = (
            has_dsn
            and not is_source_gone
            and _can_clear_source(source, row, slot, report, is_ours=is_ours)
        )
        if target is not None:
            # A receiver that pulls from the slot holds it only while a call lasts.
            with translated(endpoint, _LOCKING):
                take_lock(target, receive_lock(source.name))
        if target is not None and row is not None:
            clear_target(
                target, endpoint, row, report, with_data=with_data, owner=source.owner_role
            )
        is_source_clear = is_source_gone
        if is_source_there:
            try:
                clear_source(source.endpoint, slot, report, is_ours=is_ours)
                is_source_clear = True
            except SourceError as exc:
                report.errors.append(exc)
        if target is not None and row is not None and is_source_clear:
            forget_source(target, endpoint, source.name, report)
    return report


def _can_clear_source(
    source: SourceConfig, row: SourceRow | None, slot: str, report: DropReport, *, is_ours: bool
) -> bool:
    """Look before anything is removed anywhere: the right source, there and idle."""
    try:
        with connect(source.endpoint, _STAGE) as connection:
            side = look_at_source(connection, source.endpoint, slot)
        if row is not None and side.may_replicate:
            check_same(source.endpoint, row)
    except SourceError as exc:
        report.errors.append(exc)
        return False
    if is_ours:
        check_idle(source.endpoint, side, slot)
    check_privileges(source.endpoint, side, slot, is_ours=is_ours)
    return True
