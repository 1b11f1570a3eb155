"""``pgrepl resync``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.options import JobsOption, JsonOption, SourceArgument
from pgrepl.cli.output.results import print_json, print_line
from pgrepl.errors import UsageError
from pgrepl.terminal import counted

if TYPE_CHECKING:
    from pgrepl.config.model import Config, SourceConfig
    from pgrepl.config.naming import TableSelection
    from pgrepl.resync.choice import WayAsked
    from pgrepl.resync.report import ResyncReport

__all__ = ["resync"]

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(kB|MB|GB)(?:/s)?")
_UNITS = {"kB": 1024, "MB": 1024**2, "GB": 1024**3}


def resync(
    invocation: Invocation,
    source: SourceArgument,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE...", help="The tables: schema.table, may have *."),
    ] = None,
    *,
    all_tables: Annotated[
        bool, typer.Option("--all", help="All tables that the configuration takes in.")
    ] = False,
    where_needed: Annotated[
        bool,
        typer.Option("--where-needed", help="Only tables that are marked for a resync."),
    ] = False,
    way: Annotated[
        str, typer.Option(metavar="WAY", help="whole, chunked, or auto: as suits the table.")
    ] = "auto",
    max_rate: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Maximum bytes to read, such as 20MB/s."),
    ] = None,
    jobs: JobsOption = None,
    wait: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Maximum seconds to wait for locks, replay and what commits on the source.",
        ),
    ] = 300,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End resyncs that are under way instead.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Copy tables again, or for the first time, while streaming goes on.

    Readers of the target see the old rows until the new ones are whole. Changes of the tables wait
    meanwhile, and those that the copy does not hold are applied at the end. Interrupted, the same
    command goes on; nothing is lost. Exits 20 when some tables cannot be read, after the others.
    """
    from pgrepl.catalog.unreadable import unreadable_error
    from pgrepl.cli.output.basebackup_output import make_watcher
    from pgrepl.replayer.session import open_session
    from pgrepl.replayer.settings import ReplaySettings
    from pgrepl.resync.release import apply_waiting
    from pgrepl.resync.report import ResyncOptions
    from pgrepl.resync.run import resync_tables
    from pgrepl.store.tables.copy_work import TableProgress

    config = invocation.load_config()
    chosen = config.source(source)
    selection = _selection(tables, is_all=all_tables or (where_needed and not tables))
    if cancel:
        _cancel(config, chosen, selection, wait, is_json=json_output)
        return
    options = ResyncOptions(
        tables=selection,
        is_where_needed=where_needed,
        way=_way(way),
        max_rate=None if max_rate is None else _rate(max_rate),
        jobs=jobs,
        wait_s=wait,
    )
    applied: dict[tuple[str, str], int] = {}

    def go_on(copied: Sequence[TableProgress]) -> None:
        keys = [(table.schema_name, table.table_name) for table in copied]
        with closing(open_session(config.target.endpoint, ReplaySettings())) as connection:
            applied.update(apply_waiting(config, connection, source, keys))

    with make_watcher(source) as watcher:
        report = resync_tables(config, chosen, options, watcher, go_on)
    _print(report, applied, is_json=json_output)
    if report.unreadable:
        raise unreadable_error(chosen.endpoint, report.unreadable)


def _selection(tables: list[str] | None, *, is_all: bool) -> TableSelection:
    from pgrepl.config.naming import TableSelection

    if bool(tables) == is_all:
        raise UsageError(
            "name tables, or use --all or --where-needed",
            hint="Write schema.table as on the source; * stands for any characters.",
        )
    try:
        return TableSelection.of(tables or ["*.*"])
    except ValueError as exc:
        raise UsageError(str(exc), hint="Write schema.table as on the source.") from exc


def _way(text: str) -> WayAsked:
    ways: dict[str, WayAsked] = {"auto": "auto", "whole": "whole", "chunked": "chunked"}
    if text not in ways:
        raise UsageError(f'--way: "{text}" is no way', hint="Write auto, whole or chunked.")
    return ways[text]


def _rate(text: str) -> int:
    match = _RATE.fullmatch(text.strip())
    rate = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if rate <= 0:
        raise UsageError(f'--max-rate: "{text}" is no rate', hint="Write it as 20MB/s.")
    return rate


def _cancel(
    config: Config, source: SourceConfig, selection: TableSelection, wait_s: int, *, is_json: bool
) -> None:
    from pgrepl.config.naming import shown_name
    from pgrepl.resync.cancel import cancel_tables

    outcomes = cancel_tables(config, source, selection, wait_s)
    named = {shown_name(*key): outcome for key, outcome in outcomes.items()}
    if is_json:
        print_json({"source": source.name, "cancelled": named})
        return
    for name, outcome in named.items():
        print_line(f"{outcome}: {name}")


def _print(report: ResyncReport, applied: dict[tuple[str, str], int], *, is_json: bool) -> None:
    from pgrepl.config.naming import shown_name

    keys = [(table.schema_name, table.table_name) for table in report.tables]
    if is_json:
        rows = [
            {
                "table": shown_name(*key),
                "rows": table.row_count,
                "bytes": table.byte_count,
                # Of a table that was copied in chunks none waited.
                "changes": applied.get(key, 0),
            }
            for key, table in zip(keys, report.tables, strict=True)
        ]
        gone = [shown_name(*key) for key in report.gone]
        seconds = round(report.seconds, 2)
        closed = [shown_name(*item.key) for item in report.unreadable]
        passed = [shown_name(*key) for key in report.passed_over]
        document = {"source": report.source, "tables": rows, "gone": gone, "unreadable": closed}
        print_json({**document, "passed_over": passed, "seconds": seconds})
        return
    for key in report.gone:
        name = shown_name(*key)
        print_line(f"gone: {name}: neither the source nor the target has it any more")
    for key in report.passed_over:
        name = shown_name(*key)
        print_line(
            f"passed over: {name}: the patterns do not take it in any more; its copy stays as it"
            " is, and gets no changes"
        )
    for key, table in zip(keys, report.tables, strict=True):
        print_line(
            f"copied: {shown_name(*key)}: {counted(table.row_count, 'row')},"
            f" then {counted(applied.get(key, 0), 'change')} that waited"
        )
    if not report.tables and not report.gone and not report.unreadable:
        print_line("no table needs a resync")
