"""``pgrepl verify``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation, complete_source
from pgrepl.cli.options import JobsOption, JsonOption
from pgrepl.errors import UsageError, VerifyDifference

if TYPE_CHECKING:
    from pgrepl.config.naming import TableSelection

__all__ = ["verify"]

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)%")


def verify(
    invocation: Invocation,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="The source; all of them without a name.",
            autocompletion=complete_source,
        ),
    ] = None,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE]...", help="Only these: schema.table, may have *."),
    ] = None,
    *,
    sample: Annotated[
        str, typer.Option(metavar="PERCENT", help="Compare such a share of each table, e.g. 5%.")
    ] = "100%",
    show_rows: Annotated[
        bool, typer.Option("--show-rows", help="Show the values of rows that differ, too.")
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Maximum seconds to wait for the target to pass a position.",
        ),
    ] = 60,
    jobs: JobsOption = None,
    json_output: JsonOption = False,
) -> None:
    """Compare sources with their copies: structure, sequences, and row for row by checksums.

    Replication may go on meanwhile: what differs is read again when the target has passed that
    position. Exits 60 when there are differences, or tables that could not be compared. Tables
    that differ are marked for a resync; nothing else is changed.
    """
    from pgrepl.catalog.unreadable import named, open_them
    from pgrepl.cli.output.verify_output import make_watcher, print_reports
    from pgrepl.verify import VerifyOptions, verify_source

    config = invocation.load_config()
    options = VerifyOptions(
        tables=_selection(tables),
        sample=_share(sample),
        with_rows=show_rows,
        patience_s=wait,
        jobs=jobs,
    )
    reports = []
    databases = sorted(own.name for own in config.sources.values() if own.is_database)
    for name in [source] if source is not None else databases:
        chosen = config.source(name)
        with make_watcher(name) as watcher:
            reports.append(verify_source(config, chosen, options, watcher))
    print_reports(reports, json_output)
    differing = [report.source for report in reports if report.has_differences]
    if differing:
        raise VerifyDifference(
            f"source and target differ: {', '.join(differing)}",
            hint="Tables that differ are copied again by pgrepl resync SOURCE --where-needed.",
        )
    for report in reports:
        if report.unreadable:
            raise VerifyDifference(
                f'source "{report.source}": could not be compared: {named(report.unreadable)}',
                hint=open_them(report.source, report.unreadable),
            )
        if report.uncompared:
            raise VerifyDifference(
                f'source "{report.source}": could not be compared: {", ".join(report.uncompared)}',
                hint="The lines above say why. Tables without a whole copy are copied by pgrepl"
                " resync SOURCE TABLE, or by pgrepl replay if they are due.",
            )
        if report.error is not None:
            raise report.error


def _share(text: str) -> float:
    match = _PERCENT.fullmatch(text)
    share = float(match[1]) / 100 if match else 0
    if not 0 < share <= 1:
        raise UsageError(f'--sample: "{text}" is not a share', hint="Write it as 5%.")
    return share


def _selection(tables: list[str] | None) -> TableSelection | None:
    from pgrepl.config.naming import TableSelection

    try:
        return TableSelection.of(tables) if tables else None
    except ValueError as exc:
        raise UsageError(str(exc), hint="Write schema.table as on the source.") from exc
