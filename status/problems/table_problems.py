"""Problems of single tables: those that wait, and those that have to be copied again. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import exact_pattern
from pgrepl.errors import DdlError, TargetError
from pgrepl.status.facts import TargetFacts
from pgrepl.status.problems.problem import NAMED, Problem
from pgrepl.store.monitoring.overview import TableOverview
from pgrepl.store.tables.unselected import UNSELECTED
from pgrepl.terminal import command, counted

__all__ = ["table_problems"]

#: A lock of another session is said after that.
_LONG = timedelta(seconds=2)


def table_problems(config: SourceConfig, target: TargetFacts) -> Iterator[Problem]:
    """Return what is wrong with tables of a source."""
    due = [table for table in target.tables if table.due_reason is not None]
    if due:
        errors = dict.fromkeys(table.due_error for table in due if table.due_error is not None)
        failed = f"; it failed: {next(iter(errors))}" if errors else ""
        yield _waits(
            "resync-due",
            f"tables that DDL left different: {_named(due)}{failed}",
            "pgrepl replay copies them again by itself, unless [ddl] resync is off; or do it now:"
            f" {command('resync', config.name)} TABLE…",
            command("resync", config.name, *_patterns(due)),
        )
    resync = [
        table
        for table in target.tables
        if table.resync_reason is not None
        and table.due_reason is None
        and not _is_left_out(config, table)
    ]
    if resync:
        yield _waits(
            "resync",
            f"tables that need a resync: {_named(resync)}",
            f"Fix the cause, then copy them again:"
            f" {command('resync', config.name, '--where-needed')}",
            command("resync", config.name, "--where-needed"),
        )
    parked = [
        table
        for table in target.tables
        if table.parked_at is not None and table.parked_kind not in ("paused", "locked")
    ]
    if parked:
        changes = sum(table.parked_changes for table in parked)
        yield _waits(
            "parked",
            f"parked tables: {_named(parked)}, with {counted(changes, 'change')}",
            "See why with: pgrepl parked list",
            *(
                command("parked", verb, config.name, table.name)
                for table in parked[:NAMED]
                for verb in ("show", "retry")
            ),
        )
    if locked := [table for table in target.tables if _is_locked_for_long(table, target)]:
        blocked = "; ".join(f"{table.name} {table.parked_reason}" for table in locked[:NAMED])
        changes = sum(table.parked_changes for table in locked)
        yield Problem(
            TargetError.exit_code,
            "locked",
            f"tables that wait for a lock: {blocked};"
            f" {counted(changes, 'change waits', 'changes wait')}",
            "They go on by themselves when it is free. To end the session that holds it, on the"
            " target: select pg_terminate_backend(PID)",
        )
    if target.parked_record_count:
        yield _waits(
            "parked-records",
            f"records that could not be read or applied: {target.parked_record_count}",
            f"See them with: {command('parked', 'records', config.name)}",
        )
    if target.pending_ddl_count:
        yield _waits(
            "pending-ddl",
            f"captured DDL that waits for a person: {target.pending_ddl_count}",
            f"See it with: {command('ddl', 'pending', config.name)}",
            command("ddl", "pending", config.name),
            command("ddl", "retry", config.name),
        )


def _is_left_out(config: SourceConfig, table: TableOverview) -> bool:
    """Whether a table gets no changes because the patterns say so: that is no problem."""
    return table.resync_reason == UNSELECTED and not config.selection.matches(
        table.root_schema or table.schema_name, table.root_name or table.table_name
    )


def _is_locked_for_long(table: TableOverview, target: TargetFacts) -> bool:
    """Whether a table waits for a lock longer than may go unsaid."""
    return (
        table.parked_kind == "locked"
        and table.parked_at is not None
        and target.clock_at - table.parked_at >= _LONG
    )


def _named(tables: list[TableOverview]) -> str:
    shown = ", ".join(table.name for table in tables[:NAMED])
    more = len(tables) - NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _waits(kind: str, message: str, hint: str, *commands: str) -> Problem:
    return Problem(DdlError.exit_code, kind, message, hint, commands)


def _patterns(tables: list[TableOverview]) -> list[str]:
    return [exact_pattern(table.schema_name, table.table_name) for table in tables]
