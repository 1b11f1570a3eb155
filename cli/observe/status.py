"""``pgrepl status``."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation, complete_source
from pgrepl.errors import PgreplError, Retry, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgrepl.config.model import Config
    from pgrepl.status import Status

__all__ = ["status"]

#: Between two looks with --watch.
_WATCH_S = 2.0


def status(
    invocation: Invocation,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="Sources to look at; all of them without a name.",
            autocompletion=complete_source,
        ),
    ] = None,
    *,
    details: Annotated[
        bool,
        typer.Option("--details", help="Show all there is, also without the name of a source."),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every two seconds, until Ctrl-C.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --watch, a line each time.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="DURATION",
            help="Show how the sources fared over this time, up to 14d: lag, rates, spool.",
        ),
    ] = None,
    max_lag: Annotated[
        str | None,
        typer.Option(
            "--max-lag",
            metavar="DURATION",
            help="Exit 70 when a source lags more: a whole number and ms, s, min, h or d.",
        ),
    ] = None,
) -> None:
    """Show how every source fares, and what needs a hand: a line for each source.

    Of sources that are named, and with --details or --watch, all: positions, slot, spool, shards.
    Reads only, without Spark, and answers also while a source is down. Sources that only the target
    knows are shown too: nothing reads from their slots. Exits 0 when all is well;
    else 30 for the target, 20 for a source or its slot, 40 for the spool, 50 for parked tables,
    tables that need a resync and pending DDL, 70 for a lag over --max-lag; the worst in this order.
    """
    from pgrepl.cli.output.status_output import make_printer
    from pgrepl.status import read_status

    config = invocation.load_config()
    names = list(dict.fromkeys(sources or config.sources))
    chosen = [config.sources[name] for name in names if name in config.sources]
    # A name that the target does not know either is a mistake.
    others = [name for name in names if name not in config.sources]
    allowed = _parse("--max-lag", max_lag)
    if (past := _parse("--since", since)) is not None:
        if watch:
            raise UsageError("--since is not for --watch")
        _show_past(config, past, sources, is_json=json_output)
        return

    def read() -> Status:
        found = read_status(config, chosen, allowed, others=others if sources else "all")
        known = {source.name for source in found.sources}
        for name in others:
            if name not in known:
                config.source(name)
        return found

    is_detailed = details or bool(sources)
    with make_printer(is_json=json_output, is_watching=watch, is_detailed=is_detailed) as printer:
        if watch:
            raise typer.Exit(_watch(read, printer.show, printer.show_error))
        found = read()
        printer.show(found)
    raise typer.Exit(found.exit_code)


def _watch(
    read: Callable[[], Status],
    show: Callable[[Status], None],
    show_error: Callable[[PgreplError], None],
) -> int:
    """Show the status again and again; Ctrl-C is the way to end, and no error."""
    code = 0
    try:
        while True:
            try:
                found = read()
            except PgreplError as exc:
                if exc.retry is not Retry.TIMED:
                    raise
                code = exc.exit_code
                show_error(exc)
            else:
                code = found.exit_code
                show(found)
            time.sleep(_WATCH_S)
    except KeyboardInterrupt:
        return code


def _show_past(config: Config, since: timedelta, names: list[str] | None, *, is_json: bool) -> None:
    from pgrepl.cli.output.history_output import history_lines
    from pgrepl.cli.output.results import print_json, print_line
    from pgrepl.status.history import history_as_json, read_past
    from pgrepl.store.monitoring.history import KEPT

    if not timedelta() < since <= max(KEPT.values()):
        raise UsageError("--since: the history is kept for 14d")
    history = read_past(config.target.endpoint, since, names)
    for name in names or ():
        if name not in history.sources:
            # A name that nobody knows is a mistake.
            config.source(name)
    if is_json:
        print_json(history_as_json(history))
        return
    for line in history_lines(history, datetime.now(UTC)):
        print_line(line)


def _parse(option: str, text: str | None) -> timedelta | None:
    from pgrepl.durations import parse_duration

    try:
        return None if text is None else parse_duration(text)
    except ValueError as exc:
        raise UsageError(f"{option}: {exc}") from exc
