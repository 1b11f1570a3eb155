"""``pgrepl replay``."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.observe.monitor import MonitorOption, TokenFileOption, serving
from pgrepl.cli.output.results import print_json, print_line
from pgrepl.errors import DdlError, TargetUnavailable, UsageError
from pgrepl.terminal import counted

if TYPE_CHECKING:
    from pgrepl.config.model import Config
    from pgrepl.lsn import Lsn
    from pgrepl.monitor import Watcher
    from pgrepl.replayer import Replayer, SourceResult
    from pgrepl.replayer.spark_job import ShardJobs

__all__ = ["replay"]

logger = logging.getLogger("pgrepl.cli")


def replay(
    invocation: Invocation,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End when all is applied that is spooled now.")
    ] = False,
    until_lsn: Annotated[
        list[str] | None,
        typer.Option(
            "--until-lsn",
            metavar="SOURCE=LSN",
            help="End when what that source committed before the position is applied;"
            " other sources are left alone. Repeatable.",
        ),
    ] = None,
    monitor: MonitorOption = None,
    token_file: TokenFileOption = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON at the end.")] = False,
) -> None:
    """Apply the spool of all sources to the target, through Spark.

    Runs until it is stopped by SIGTERM or Ctrl-C, which loses nothing. Exits 75 when another
    replayer runs on the target, and 50 when --once or --until-lsn is done but tables are parked, or
    wait to be copied again.
    """
    config = invocation.load_config()
    until = _parse_positions(config, until_lsn or [])
    is_service = not (once or until)
    with serving(config, monitor, token_file, is_recording=is_service) as watcher:
        if is_service:
            results = _serve(invocation, config, watcher)
        else:
            replayer = _make_replayer(config)
            _stop_on_signals(replayer, threading.Event())
            results = replayer.run(once=once, until=until)
    if json_output:
        print_json([_as_json(result) for result in results])
    else:
        for result in results:
            print_line(
                f"{result.source}: applied up to {result.applied},"
                f" {counted(result.change_count, 'change')} in"
                f" {counted(result.batch_count, 'batch', 'batches')}"
            )
    _report(results, is_done=once or bool(until))


def _make_replayer(config: Config, jobs: ShardJobs | None = None) -> Replayer:
    from pgrepl.ddl_capture import Applier
    from pgrepl.housekeeping import Housekeeper
    from pgrepl.replayer import Replayer
    from pgrepl.resync import Resyncer

    resync = Resyncer(config) if config.ddl.resync else None
    return Replayer(config, Applier(config), upkeep=Housekeeper(config), resync=resync, jobs=jobs)


def _serve(invocation: Invocation, config: Config, watcher: Watcher | None) -> list[SourceResult]:
    """Replay until stopped; after the configuration has changed, by another replayer.

    Spark goes on, unless it is its own configuration that changed.
    """
    from pgrepl.cli.reload import watch_config
    from pgrepl.replayer import ReplaySettings
    from pgrepl.replayer.spark_job import ShardJobs as Jobs

    following: list[Config] = []
    is_stopped = threading.Event()
    # Between two replayers nobody else waits for it; the next one looks at the file at once.
    signal.signal(signal.SIGHUP, lambda *_: None)
    jobs = Jobs(config.spark, ReplaySettings())
    try:
        while True:
            replayer = _make_replayer(config, jobs)
            _stop_on_signals(replayer, is_stopped)
            if is_stopped.is_set():
                # It was asked to between two replayers.
                replayer.stop()

            def take(found: Config, replayer: Replayer = replayer) -> None:
                following.append(found)
                replayer.stop()

            with watch_config(invocation, config, take):
                results = replayer.run()
            if is_stopped.is_set() or not following:
                return results
            if following[-1].spark != config.spark:
                jobs.stop()
                jobs = Jobs(following[-1].spark, ReplaySettings())
            config = following[-1]
            following.clear()
            if watcher is not None:
                watcher.reload(config)
            logger.info("going on with the changed configuration")
    finally:
        jobs.stop()


def _parse_positions(config: Config, given: Sequence[str]) -> dict[str, Lsn]:
    from pgrepl.lsn import Lsn

    positions = {}
    for text in given:
        name, equals, lsn = text.partition("=")
        if not equals:
            raise UsageError(f"--until-lsn: {text} is not SOURCE=LSN")
        try:
            positions[config.source(name).name] = Lsn.parse(lsn)
        except ValueError as exc:
            raise UsageError(f"--until-lsn: {exc}") from exc
    return positions


def _stop_on_signals(replayer: Replayer, is_stopped: threading.Event) -> None:
    """End after the batch in hand; asked again, at once: what is not committed is done again."""

    def stop(*_: object) -> None:
        is_stopped.set()
        replayer.stop()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _as_json(result: SourceResult) -> dict[str, object]:
    return {
        "source": result.source,
        "applied_lsn": result.applied,
        "change_count": result.change_count,
        "batch_count": result.batch_count,
        "parked": [".".join(name) for name in result.parked],
        "waiting_ddl": result.waiting_ddl,
        "locked": [".".join(name) for name, _ in result.locked],
        "resync_due": [".".join(name) for name in result.due],
        "error": None if result.error is None else result.error.message,
    }


def _report(results: Sequence[SourceResult], *, is_done: bool) -> None:
    """Exit as the worst of the sources says; a service that was stopped is not to blame."""
    from pgrepl.config.naming import shown_name

    for result in results:
        if result.error is not None:
            raise result.error
    if not is_done:
        return
    parked = [f"{result.source}: {shown_name(*n)}" for result in results for n in result.parked]
    if parked:
        raise DdlError(
            f"tables are parked: {', '.join(parked)}",
            hint="See why with: pgrepl parked list",
        )
    locked = [
        f"{result.source}: {shown_name(*name)}: {why}"
        for result in results
        for name, why in result.locked
    ]
    if locked:
        raise TargetUnavailable(
            f"tables are locked on the target: {'; '.join(locked)}",
            hint="Their changes wait, and are applied first by the next run.",
        )
    waiting = [result.source for result in results if result.waiting_ddl]
    if waiting:
        raise DdlError(
            f"sources with DDL that waits for a person: {', '.join(waiting)}",
            hint="See it with: pgrepl ddl pending",
        )
    due = [f"{result.source}: {shown_name(*n)}" for result in results for n in result.due]
    if due:
        raise DdlError(
            f"tables wait to be copied again: {', '.join(due)}",
            hint="See why with: pgrepl status",
        )
