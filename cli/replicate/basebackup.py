"""``pgrepl basebackup``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.options import JobsOption, JsonOption, SourceArgument
from pgrepl.terminal import command

if TYPE_CHECKING:
    from pgrepl.basebackup.report import CopyOptions
    from pgrepl.config.model import Config, SourceConfig
    from pgrepl.config.naming import TableSelection

__all__ = ["basebackup"]


def basebackup(
    invocation: Invocation,
    source: SourceArgument,
    *,
    tables: Annotated[
        list[str] | None,
        typer.Option("--tables", metavar="PATTERN", help="Only these: schema.table, may have *."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="PATTERN", help="Not these: schema.table, may have *."),
    ] = None,
    jobs: JobsOption = None,
    indexes: Annotated[
        Literal["keys", "all"] | None,
        typer.Option(help="Make keys and unique indexes only, the default, or all indexes."),
    ] = None,
    views: Annotated[
        bool, typer.Option("--views", help="Make views and materialized views too.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Drop what was copied, and start over.")
    ] = False,
    schema_only: Annotated[
        bool, typer.Option("--schema-only", help="Make schemas and tables; no slot, no rows.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done; change nothing.")
    ] = False,
    lock_timeout: Annotated[
        int, typer.Option(min=1, help="Seconds to wait for a table that is locked.")
    ] = 30,
    json_output: JsonOption = False,
) -> None:
    """Copy a source into the target, exactly as it is at one position of its WAL.

    Interrupted at any moment, the same command goes on: tables that are copied stay. Afterwards
    pgrepl receive streams from where the copy began.
    """
    from pgrepl.basebackup.dry_run import plan_copy
    from pgrepl.basebackup.report import CopyOptions
    from pgrepl.basebackup.run import copy_source
    from pgrepl.cli.output.basebackup_output import make_watcher, print_plan, print_report

    config = invocation.load_config()
    chosen = config.source(source)
    options = CopyOptions(
        tables=_selection(tables, exclude),
        jobs=jobs,
        with_all_indexes=indexes == "all" if indexes is not None else None,
        with_views=views,
        is_restart=restart,
        is_schema_only=schema_only,
        lock_timeout_s=lock_timeout,
    )
    _consult_doctor(config, chosen, options)
    if dry_run:
        default_jobs = os.cpu_count() or 1
        print_plan(plan_copy(config, chosen, options, default_jobs=default_jobs), json_output)
        return
    with make_watcher(source) as watcher:
        report = copy_source(config, chosen, options, watcher)
    print_report(report, json_output)


def _selection(tables: list[str] | None, exclude: list[str] | None) -> TableSelection | None:
    from pgrepl.config.naming import TableSelection
    from pgrepl.errors import UsageError

    if not tables and not exclude:
        return None
    try:
        return TableSelection.of(tables or ["*.*"], exclude or [])
    except ValueError as exc:
        raise UsageError(str(exc), hint="Write --tables 'shop.*', in quotes.") from exc


def _consult_doctor(config: Config, source: SourceConfig, options: CopyOptions) -> None:
    """Refuse what doctor would: a copy that cannot be followed by a stream is worth nothing."""
    from pgrepl.doctor import Area, Status, examine
    from pgrepl.errors import ConfigError, PgreplError, SourceError, TargetError

    kinds: dict[Area, type[PgreplError]] = {
        Area.SOURCE: SourceError,
        Area.TARGET: TargetError,
        Area.HERE: ConfigError,
    }
    for examination in examine(config, [source], os.environ, spark=False):
        for finding in examination.findings:
            if finding.status is Status.FAILURE and not _is_ours(finding.check, options):
                raise kinds[examination.area](
                    f"{examination.title}: {finding.check}: {finding.message}",
                    hint=f"Run {command('doctor', source.name)}: it prints what fixes it.",
                )


def _is_ours(check: str, options: CopyOptions) -> bool:
    """Whether a failed check is what this run is there to fix."""
    return options.is_restart and check in ("slot", "existing-schemas")
