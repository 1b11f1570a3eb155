"""``pgrepl resync``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated

import typer

from pgrepl.cli.invocation import Invocation, complete_source
from pgrepl.cli.output import print_json, print_line
from pgrepl.errors import UsageError

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
        typer.Option(min=1, max=256, help="Number of parallel jobs; default: one per core."),
    ] = None,
    wait: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Maximum seconds to wait for locks, replay and open transactions.",
        ),
    ] = 300,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Copy tables again, exactly, while streaming goes on.

    The tables are parked meanwhile: their changes wait, and those that the copy does not hold are
    applied at the end. Interrupted, the same command starts over; nothing is lost. Exits 20 when
    some of them cannot be read, after the others.
    """
    from pgrepl.catalog.unreadable import unreadable_error
    from pgrepl.cli.basebackup_output import make_watcher
    from pgrepl.config.naming import TableSelection, shown_name
    from pgrepl.replayer.session import open_session
    from pgrepl.replayer.settings import ReplaySettings
    from pgrepl.resync.release import apply_waiting
    from pgrepl.resync.report import ResyncOptions
    from pgrepl.resync.run import resync_tables
    from pgrepl.store.copy_work import TableProgress

    config = invocation.load_config()
    chosen = config.source(source)
    try:
        selection = TableSelection.of(tables)
    except ValueError as exc:
        raise UsageError(str(exc), hint="Write schema.table as on the source.") from exc
    options = ResyncOptions(tables=selection, jobs=jobs, wait_s=wait)
    applied: dict[tuple[str, str], int] = {}

    def go_on(copied: Sequence[TableProgress]) -> None:
        keys = [(table.schema_name, table.table_name) for table in copied]
        with closing(open_session(config.target.endpoint, ReplaySettings())) as connection:
            applied.update(apply_waiting(config, connection, source, keys))

    with make_watcher(source) as watcher:
        report = resync_tables(config, chosen, options, watcher, go_on)
    keys = [(table.schema_name, table.table_name) for table in report.tables]
    if json_output:
        rows = [
            {
                "table": shown_name(*key),
                "rows": table.row_count,
                "bytes": table.byte_count,
                "changes": applied[key],
            }
            for key, table in zip(keys, report.tables, strict=True)
        ]
        gone = [shown_name(*key) for key in report.gone]
        seconds = round(report.seconds, 2)
        closed = [shown_name(*item.key) for item in report.unreadable]
        document = {"source": source, "tables": rows, "gone": gone, "unreadable": closed}
        print_json({**document, "seconds": seconds})
    else:
        for key in report.gone:
            name = shown_name(*key)
            print_line(f"gone: {name}: neither the source nor the target has it any more")
        for key, table in zip(keys, report.tables, strict=True):
            print_line(
                f"copied: {shown_name(*key)}: {table.row_count:,} rows,"
                f" then {applied[key]:,} changes that waited"
            )
    if report.unreadable:
        raise unreadable_error(chosen.endpoint, report.unreadable)
