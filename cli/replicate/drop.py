"""``pgrepl drop``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgrepl.cli.invocation import Invocation
from pgrepl.cli.options import JsonOption, SourceArgument
from pgrepl.cli.output.results import ask, print_json, print_line, print_script
from pgrepl.errors import UsageError

if TYPE_CHECKING:
    from pgrepl.drop import DropReport, Item, Survey

__all__ = ["drop"]


def drop(
    invocation: Invocation,
    source: SourceArgument,
    *,
    with_data: Annotated[
        bool, typer.Option("--with-data", help="Drop the copied schemas as well.")
    ] = False,
    source_is_gone: Annotated[
        bool,
        typer.Option(
            "--source-is-gone", help="Ask nothing of the source, and forget that it has a slot."
        ),
    ] = False,
    sql: Annotated[
        bool,
        typer.Option(
            "--sql",
            help="Print what a superuser of the source has to run because its role may not.",
        ),
    ] = False,
    dsn: Annotated[
        str | None,
        typer.Option(
            "--dsn",
            metavar="DSN",
            help="The way to a source that pgrepl.toml does not have any more.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Remove everything that pgrepl made for a source, on both sides.

    The copied tables stay, unless --with-data is given. Exits 20 when the source could not be
    cleared, 30 when it was the target: the same command, run later, does the rest. The event
    triggers take a superuser to remove; without one they are switched off, and --sql prints what
    removes them. A source that pgrepl.toml does not have any more is removed from the target; its
    own side needs --dsn.
    """
    from pgrepl.drop import (
        DropReport,
        drop_source,
        find_unconfigured,
        privileged_script,
        survey_source,
    )

    config = invocation.load_config()
    if source in config.sources and dsn is not None:
        raise UsageError(
            f'--dsn: {config.path} has the DSN of source "{source}"', hint="Run it without --dsn."
        )
    has_dsn = source in config.sources or dsn is not None
    chosen = config.sources.get(source) or find_unconfigured(config, source, dsn)
    if sql and not has_dsn:
        raise UsageError(
            f'--sql: {config.path} has no DSN of source "{source}"', hint="Give it with --dsn."
        )
    if sql:
        for statements in privileged_script(config, chosen):
            text = ";\n".join(statement.as_string() for statement in statements)
            print_script(f"begin;\n{text};\ncommit;\n")
        return
    if not yes:
        survey = survey_source(config, chosen, is_source_gone=source_is_gone, has_dsn=has_dsn)
        if survey.is_empty:
            _print(DropReport(source, list(survey.items)), json_output)
            return
        _ask(survey, with_data)
    report = drop_source(
        config, chosen, with_data=with_data, is_source_gone=source_is_gone, has_dsn=has_dsn
    )
    _print(report, json_output)
    if report.errors:
        invocation.fail(report.errors[0])


def _ask(survey: Survey, with_data: bool) -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            "drop asks before it removes anything, and there is no terminal to answer on",
            hint="Add --yes.",
        )
    print_line("to be removed:", err=True)
    for item in survey.items:
        is_copy = item.kind == "schema" and item.side.value == "target"
        if item.outcome == "found" and (with_data or not is_copy):
            print_line(f"  {_line(item)}", err=True)
    for error in survey.errors:
        print_line(f"  not reached: {error.message}", err=True)
    ask(f"remove source {survey.source}?")


def _print(report: DropReport, as_json: bool) -> None:
    removed = [item for item in report.items if item.outcome == "removed"]
    kept = [item for item in report.items if item.outcome == "kept"]
    if as_json:
        print_json(
            {
                "source": report.source,
                "removed": _as_json(removed),
                "kept": _as_json(kept),
                "errors": [{"message": e.message, "hint": e.hint} for e in report.errors],
                "exit_code": report.errors[0].exit_code if report.errors else 0,
            }
        )
        return
    for item in removed:
        print_line(f"removed: {_line(item)}")
    for item in kept:
        print_line(f"kept: {_line(item)}: {item.reason or ''}")
    for error in report.errors[1:]:
        print_line(f"not cleared: {error.message}")
    if not removed and not report.errors:
        print_line(f"nothing of source {report.source} is there")


def _line(item: Item) -> str:
    return f"{item.side.value} {item.kind} {item.name}"


def _as_json(items: Sequence[Item]) -> list[dict[str, Any]]:
    return [
        {"side": item.side.value, "kind": item.kind, "name": item.name, "reason": item.reason}
        for item in items
    ]
