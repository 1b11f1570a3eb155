"""``pgrepl receive``."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation, complete_source
from pgrepl.cli.observe.monitor import MonitorOption, TokenFileOption, serving
from pgrepl.cli.output.results import print_json, print_line
from pgrepl.errors import DdlError, UsageError
from pgrepl.terminal import command, counted

if TYPE_CHECKING:
    from pgrepl.config.model import Config
    from pgrepl.lsn import Lsn
    from pgrepl.monitor import Watcher
    from pgrepl.receiver import Receiver, Result

__all__ = ["receive"]

logger = logging.getLogger("pgrepl.cli")

#: SIGTERM ends the program within a second.
_STOP_S = 0.9


def receive(
    invocation: Invocation,
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Source to receive.", autocompletion=complete_source),
    ],
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End when all is received that is committed now.")
    ] = False,
    until_lsn: Annotated[
        str | None,
        typer.Option(
            "--until-lsn",
            metavar="LSN",
            help="End when all is received that committed before this position.",
        ),
    ] = None,
    is_plugin_change: Annotated[
        bool,
        typer.Option(
            "--change-plugin",
            help="Receive what there is, give the slot the plugin of the configuration, and end.",
        ),
    ] = False,
    monitor: MonitorOption = None,
    token_file: TokenFileOption = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON at the end.")] = False,
) -> None:
    """Stream committed transactions of a source into the spool on the target.

    Runs until it is stopped by SIGTERM or Ctrl-C, which loses nothing, and reconnects by itself.
    Exits 75 when another receiver of the source runs, 20 when the source cannot go on, and 50
    when --once or --until-lsn is done but tables wait for a resync.
    """
    from pgrepl.receiver import Notifier, Receiver

    config = invocation.load_config()
    if is_plugin_change:
        _change_plugin(config, source)
        return
    if until_lsn is not None and not config.source(source).is_database:
        raise UsageError(f'--until-lsn: source "{source}" has offsets, no LSNs', hint="Use --once.")
    receiver = Receiver(config, config.source(source), notifier=Notifier(os.environ))
    _stop_on_signals(receiver)
    until = _parse_lsn(until_lsn)
    is_service = not once and until is None
    try:
        with (
            serving(config, monitor, token_file, sources=[source]) as watcher,
            _reloading(invocation, config, receiver, source, watcher)
            if is_service
            else nullcontext(),
        ):
            result = receiver.run(once=once, until=until)
    finally:
        # What is over cannot take too long: the alarm would kill the program on its way out.
        signal.setitimer(signal.ITIMER_REAL, 0)
    if json_output:
        tables = [".".join(name) for name in result.resync_tables]
        print_json({**asdict(result), "resync_tables": tables})
    else:
        print_line(
            f"received up to {result.flushed}: {counted(result.transaction_count, 'transaction')},"
            f" {counted(result.change_count, 'change')}, {counted(result.segment_count, 'segment')}"
        )
    _report_resyncs(source, result)


def _reloading(
    invocation: Invocation,
    config: Config,
    receiver: Receiver,
    name: str,
    watcher: Watcher | None,
) -> AbstractContextManager[None]:
    """Follow changes of the configuration that are about this source or the target."""
    from pgrepl.cli.reload import watch_config

    current = (config.target, config.source(name))

    def take(found: Config) -> None:
        nonlocal current
        chosen = found.sources.get(name)
        if chosen is None:
            logger.warning(
                "%s has no source %s any more: going on with what it was", found.path, name
            )
        elif (found.target, chosen) != current:
            current = (found.target, chosen)
            receiver.reload(found, chosen)
            if watcher is not None:
                watcher.reload(found)

    return watch_config(invocation, config, take)


def _change_plugin(config: Config, name: str) -> None:
    from pgrepl.receiver import change_plugin

    source = config.source(name)
    is_changed = change_plugin(config, source)
    shown = f'slot "{source.slot}" is decoded by {source.plugin}'
    print_line(f"{shown} now" if is_changed else f"{shown} already")


def _parse_lsn(text: str | None) -> Lsn | None:
    from pgrepl.lsn import Lsn

    try:
        return None if text is None else Lsn.parse(text)
    except ValueError as exc:
        raise UsageError(f"--until-lsn: {exc}") from exc


def _stop_on_signals(receiver: Receiver) -> None:
    """End in good order; what takes too long, such as a server that does not answer, is left."""

    def stop(*_: object) -> None:
        receiver.stop()
        signal.setitimer(signal.ITIMER_REAL, _STOP_S)

    def leave(*_: object) -> None:
        raise typer.Exit

    signal.signal(signal.SIGALRM, leave)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _report_resyncs(source: str, result: Result) -> None:
    from pgrepl.config.naming import exact_pattern

    if result.resync_tables:
        listed = " ".join(".".join(name) for name in result.resync_tables)
        patterns = [exact_pattern(*name) for name in result.resync_tables]
        raise DdlError(
            f'source "{source}": tables that lost changes: {listed}',
            hint="Fix the cause that replication.source_table names, then copy them again:"
            f" {command('resync', source, *patterns)}",
        )
