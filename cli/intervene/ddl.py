"""``pgrepl ddl``: the capture on a source, and DDL that waits for a person."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pgrepl.cli.invocation import Invocation, complete_source
from pgrepl.cli.options import JsonOption, SourceArgument
from pgrepl.cli.output.results import print_json, print_line, print_script
from pgrepl.errors import DdlError, TargetError, UsageError
from pgrepl.terminal import command, counted, print_time

if TYPE_CHECKING:
    from pgrepl.ddl_capture import CaptureStatus, MissedDdl
    from pgrepl.ddl_capture.scripts import Statement
    from pgrepl.postgres.connect import Connection
    from pgrepl.store.ddl_journal import DecisionKind, PendingDdl

__all__ = [
    "disable",
    "edit",
    "enable",
    "install",
    "pending",
    "retry",
    "skip",
    "status",
    "uninstall",
]

SqlOption = Annotated[
    bool, typer.Option("--sql", help="Print the statements for a superuser; run nothing.")
]
NumberOption = Annotated[
    int | None,
    typer.Option(
        "--number", metavar="N", help="The statement's number, when not the one that waits."
    ),
]


def install(
    invocation: Invocation,
    source: SourceArgument,
    *,
    sql: SqlOption = False,
    json_output: JsonOption = False,
) -> None:
    """Install event triggers on a source that capture its DDL, or renew them.

    Needs a superuser on the source. Without one, --sql prints what a superuser has to run.
    """
    from pgrepl import ddl_capture

    config = invocation.load_config().source(source)
    if sql:
        _print_script(ddl_capture.install_script(config.dsn.parameter("user")))
        return
    _print_status(source, ddl_capture.install(config), json_output=json_output)


def uninstall(invocation: Invocation, source: SourceArgument, *, sql: SqlOption = False) -> None:
    """Remove the event triggers and their log from a source.

    Needs a superuser on the source. Without one, --sql prints what a superuser has to run; disable
    stops the capture at once.
    """
    from pgrepl import ddl_capture

    config = invocation.load_config().source(source)
    if sql:
        _print_script(ddl_capture.uninstall_script())
        return
    ddl_capture.uninstall(config)
    print_line(f"{source}: DDL is not captured any more")


def status(
    invocation: Invocation, source: SourceArgument, *, json_output: JsonOption = False
) -> None:
    """Show whether a source's DDL is captured, and from which LSN on completely.

    Tables whose copy is older than that are compared with the source; exits 50 when some differ.
    """
    from pgrepl import ddl_capture

    config = invocation.load_config()
    found = ddl_capture.read_status(config.source(source))
    missed: MissedDdl | None = None
    error: TargetError | None = None
    try:
        missed = ddl_capture.find_missed(config, config.source(source), found)
    except TargetError as exc:
        error = exc
    if json_output:
        compared = None if missed is None else asdict(missed)
        print_json({"source": source, **asdict(found), "missed": compared})
    else:
        _print_status(source, found, json_output=False)
        _print_missed(source, missed, error)
    if missed is not None and missed.differences and not missed.is_behind:
        raise DdlError(
            f'source "{source}": tables changed while their DDL was not captured',
            hint="Make the same changes on the target; a new table comes with pgrepl resync.",
        )


def enable(
    invocation: Invocation,
    source: SourceArgument,
    *,
    sql: SqlOption = False,
    json_output: JsonOption = False,
) -> None:
    """Switch the capture on again.

    The role that runs pgrepl may do it; for an older capture --sql prints what a superuser has to
    run.
    """
    _switch(invocation, source, is_on=True, sql=sql, json_output=json_output)


def disable(
    invocation: Invocation,
    source: SourceArgument,
    *,
    sql: SqlOption = False,
    json_output: JsonOption = False,
) -> None:
    """Switch the capture off at once. DDL that runs meanwhile does not reach the target.

    The role that runs pgrepl may do it; for an older capture --sql prints what a superuser has to
    run.
    """
    _switch(invocation, source, is_on=False, sql=sql, json_output=json_output)


def pending(
    invocation: Invocation,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[SOURCE]", help="Source; without it all.", autocompletion=complete_source
        ),
    ] = None,
    *,
    json_output: JsonOption = False,
) -> None:
    """Show the DDL that cannot be applied: as it ran, as it would run here, and why not.

    Exits 50 when something waits for a decision.
    """
    from pgrepl.store.ddl_journal import read_pending

    if source is not None:
        invocation.load_config().source(source)
    with _target(invocation) as connection:
        found = read_pending(connection, source)
    if json_output:
        print_json([asdict(item) for item in found])
    for item in () if json_output else found:
        _print_pending(item)
    if not found and not json_output:
        print_line("no DDL waits")
    waiting = [item for item in found if item.decision is None]
    if waiting:
        names = " ".join(sorted({item.source for item in waiting}))
        raise DdlError(
            f"sources with DDL that waits: {names}",
            hint="Settle it with pgrepl ddl retry, edit or skip.",
        )


def retry(
    invocation: Invocation,
    source: SourceArgument,
    *,
    number: NumberOption = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept",
            help="Run the statement as it was remapped, without rules, and accept the outcome.",
        ),
    ] = False,
) -> None:
    """Let replay try the statement again, after you fixed the cause."""
    if not accept:
        _decide(invocation, source, "retry", number)
        return
    waiting = _waiting(invocation, source, number)
    if waiting.remapped is None:
        raise UsageError(
            f'source "{source}": the statement was not remapped',
            hint=f"Write one that can run on the target: {command('ddl', 'edit', source)}",
        )
    _decide(invocation, source, "edit", waiting.log_id, waiting.remapped)


def edit(
    invocation: Invocation,
    source: SourceArgument,
    *,
    number: NumberOption = None,
    sql: Annotated[
        str | None, typer.Option("--sql", metavar="SQL", help="The statement to run instead.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="A file that holds it; - is standard input."),
    ] = None,
) -> None:
    """Give replay another statement to run in this place, in the target's names.

    What you write runs with the rights of the target's role and without the rules for captured DDL.
    """
    if (sql is None) == (file is None):
        raise UsageError(
            "the statement comes from --sql or from --file",
            hint=f"{command('ddl', 'pending', source)} shows the one to start with.",
        )
    text = sql
    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    if not text or not text.strip():
        raise UsageError("there is no statement to run", hint="To skip it: pgrepl ddl skip.")
    _decide(invocation, source, "edit", number, text)


def skip(invocation: Invocation, source: SourceArgument, *, number: NumberOption = None) -> None:
    """Let replay go on without the statement."""
    _decide(invocation, source, "skip", number)


def _switch(
    invocation: Invocation, source: str, *, is_on: bool, sql: bool, json_output: bool
) -> None:
    from pgrepl import ddl_capture

    config = invocation.load_config().source(source)
    if sql:
        _print_script(ddl_capture.switch_script(is_on=is_on))
        return
    found = ddl_capture.switch(config, is_on=is_on)
    _print_status(source, found, json_output=json_output)


def _print_script(script: Sequence[Sequence[Statement]]) -> None:
    """Print statements, those of one transaction together."""
    for statements in script:
        print_script("begin;\n")
        for statement in statements:
            print_script(f"{statement.as_string().rstrip().rstrip(';')};\n\n")
        print_script("commit;\n")


@contextmanager
def _target(invocation: Invocation) -> Iterator[Connection]:
    from pgrepl.postgres.connect import connect
    from pgrepl.postgres.sqlstate import translated
    from pgrepl.store.migrations import migrate

    endpoint = invocation.load_config().target.endpoint
    with connect(endpoint, "ddl") as connection:
        migrate(connection, endpoint)
        with translated(endpoint, "cannot read what waits"):
            yield connection


def _waiting(invocation: Invocation, source: str, number: int | None) -> PendingDdl:
    from pgrepl import ddl_capture

    with _target(invocation) as connection:
        return ddl_capture.find_waiting(connection, source, number)


def _decide(
    invocation: Invocation,
    source: str,
    kind: DecisionKind,
    number: int | None,
    edited: str | None = None,
) -> None:
    from pgrepl import ddl_capture

    invocation.load_config().source(source)
    with _target(invocation) as connection:
        found = ddl_capture.decide(connection, source, kind, log_id=number, edited=edited)
    words = {"retry": "is tried again", "edit": "is replaced", "skip": "is skipped"}
    print_line(f"{source}: {found.tag} at {found.commit_lsn} {words[kind]} when replay comes to it")


def _print_status(source: str, found: CaptureStatus, *, json_output: bool) -> None:
    if json_output:
        print_json({"source": source, **asdict(found)})
        return
    lines = {
        "absent": "DDL is not captured; install it with pgrepl ddl install",
        "partial": "the capture of DDL is incomplete; renew it with pgrepl ddl install",
        "disabled": "the capture of DDL is switched off; pgrepl ddl enable switches it on",
    }
    if found.state in lines:
        print_line(f"{source}: {lines[found.state]}")
    elif found.complete_lsn is None:
        print_line(
            f"{source}: DDL is captured, but not yet completely:"
            " a transaction from before the triggers still runs"
        )
    else:
        print_line(f"{source}: DDL is captured, completely from {found.complete_lsn} on")
    if found.off_lsn is not None and found.off_at is not None:
        when = print_time(found.off_at)
        print_line(f"{source}: it was switched off at {found.off_lsn}, {when}")
    if found.is_outdated:
        print_line(f"{source}: an older version installed it; renew it with pgrepl ddl install")


def _print_missed(source: str, missed: MissedDdl | None, error: TargetError | None) -> None:
    if error is not None:
        print_line(f"{source}: not compared with the target: {error.message}")
    if missed is None:
        return
    if not missed.differences:
        print_line(
            f"{source}: {counted(missed.table_count, 'table')} copied before, as on the target"
        )
        return
    if missed.is_behind:
        print_line(f"{source}: captured DDL is not applied yet; look again when replay has come by")
    for line in missed.differences:
        print_line(f"  {line}")


def _print_pending(item: PendingDdl) -> None:
    print_line(
        f"{item.source}: {item.tag} by {item.role}, number {item.log_id},"
        f" committed at {item.commit_lsn}, {print_time(item.commit_at)}"
    )
    print_line(f"  error:    {item.error}")
    print_line(f"  original: {item.original or 'unknown'}")
    print_line(f"  remapped: {item.remapped or 'not remapped'}")
    if item.decision is not None:
        by = item.decided_by or ""
        print_line(f"  decision: {item.decision} by {by}; waits for pgrepl replay")
