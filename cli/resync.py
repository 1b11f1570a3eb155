"""``pgrepl resync``."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation, complete_source
from pgrepl.cli.output import print_json
from pgrepl.errors import UsageError

if TYPE_CHECKING:
    from pgrepl.config import Config

__all__ = ["resync"]


def resync(
    invocation: Invocation,
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="The source.", autocompletion=complete_source),
    ],
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLE...", help="The tables: schema.table, may have *."),
    ],
    *,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=256, help="Copy so many parts at once; default: Spark's cores."),
    ] = None,
    wait: Annotated[
        int,
        typer.Option(
            min=1, metavar="SECONDS", help="Wait so long for locks, replay and open transactions."
        ),
    ] = 300,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Copy tables again, exactly, while streaming goes on.

    The tables are parked meanwhile: their changes wait, and those that the copy does not hold are
    applied at the end. Interrupted, the same command begins anew; nothing is lost.
    """
    from pgrepl.basebackup import ResyncOptions, resync_tables
    from pgrepl.cli.basebackup_output import make_watcher
    from pgrepl.naming import TableSelection, shown_name

    config = invocation.load_config()
    chosen = config.source(source)
    try:
        selection = TableSelection.of(tables)
    except ValueError as exc:
        raise UsageError(str(exc), hint="Write schema.table as on the source.") from exc
    options = ResyncOptions(tables=selection, jobs=jobs, wait_s=wait)
    with make_watcher(source) as watcher:
        report = resync_tables(config, chosen, options, watcher)
    names = [shown_name(table.schema_name, table.table_name) for table in report.tables]
    applied = _go_on(config, source, names)
    if json_output:
        rows = [
            {
                "table": name,
                "rows": table.row_count,
                "bytes": table.byte_count,
                "changes": applied[name],
            }
            for name, table in zip(names, report.tables, strict=True)
        ]
        print_json({"source": source, "tables": rows, "seconds": round(report.seconds, 2)})
        return
    for name, table in zip(names, report.tables, strict=True):
        typer.echo(
            f"copied: {name}: {table.row_count:,} rows, then {applied[name]:,} changes that waited"
        )


def _go_on(config: Config, source: str, names: list[str]) -> dict[str, int]:
    """Apply what waited for the tables meanwhile, and let them go on."""
    from pgrepl.replayer.parked import find_parked, retry_table
    from pgrepl.replayer.session import open_session
    from pgrepl.replayer.settings import ReplaySettings

    settings = ReplaySettings()
    target = config.target.endpoint
    with closing(open_session(target, settings)) as connection:
        return {
            name: retry_table(
                connection,
                target,
                find_parked(connection, source, name),
                config.replay.on_conflict,
                settings,
            )
            for name in names
        }
