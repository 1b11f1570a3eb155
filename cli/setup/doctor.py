"""``pgrepl doctor``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgrepl.cli.invocation import Invocation, complete_source
from pgrepl.cli.options import JsonOption
from pgrepl.cli.output.results import (
    ask,
    is_terminal,
    make_console,
    print_json,
    print_line,
    print_script,
    printable,
)
from pgrepl.errors import UsageError
from pgrepl.terminal import counted

if TYPE_CHECKING:
    from pgrepl.config.dsn import Dsn
    from pgrepl.doctor import Examination, Finding, Remedy

__all__ = ["doctor"]

_COLOURS = {"ok": "green", "warning": "yellow", "failure": "red", "skipped": "dim"}


def doctor(
    invocation: Invocation,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]...",
            help="Sources to examine; all of them without a name.",
            autocompletion=complete_source,
        ),
    ] = None,
    *,
    json_output: JsonOption = False,
    sql_output: Annotated[
        bool,
        typer.Option(
            "--sql", help="Print only the commands that fix failures or give privileges, for psql."
        ),
    ] = False,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Run those commands, after showing them and asking; see --as."),
    ] = False,
    fix_as: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="DSN",
            help="With --fix: the superuser, as in 'user=postgres'; each server's place is known.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --fix: do not ask.")] = False,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark",
            help="Run a small Spark job to try Spark; by default on a cluster only.",
        ),
    ] = None,
) -> None:
    """Check everything that would later fail or silently lose data.

    Examines the sources, the target and this machine in one pass and changes nothing, unless --fix
    is given. Exits 0 when all is well, 20 when a source failed, 30 for the target, 10 for this
    machine; warnings do not fail.
    """
    from pgrepl.doctor import examine, exit_code, psql_script

    if json_output and sql_output:
        raise UsageError("--json and --sql exclude each other")
    role = _privileged_role(fix_as, is_fixing=fix, is_script=sql_output)
    config = invocation.load_config()
    names = sources or list(config.sources)
    chosen = [config.source(name) for name in dict.fromkeys(names)]
    if role is not None and _fix(examine(config, chosen, os.environ, spark=False), role, yes=yes):
        print_line("examining again", err=True)
    examinations = examine(config, chosen, os.environ, spark=spark)
    code = exit_code(examinations)
    if sql_output:
        print_script(psql_script(examinations))
    elif json_output:
        print_json({"exit_code": code, "examinations": [_as_json(e) for e in examinations]})
    elif is_terminal():
        _print_table(examinations)
    else:
        _print_lines(examinations)
    raise typer.Exit(code)


def _privileged_role(given: str | None, *, is_fixing: bool, is_script: bool) -> Dsn | None:
    from pgrepl.config.dsn import Dsn, DsnError

    if given is None:
        if is_fixing:
            raise UsageError(
                "--fix needs --as: whom to run the remedies as",
                hint="For example --as 'user=postgres'; the password comes from ~/.pgpass.",
            )
        return None
    if not is_fixing:
        raise UsageError("--as goes with --fix")
    if is_script:
        raise UsageError("--fix and --sql exclude each other")
    try:
        return Dsn(given)
    except DsnError as exc:
        raise UsageError(f"--as: {exc}") from None


def _fix(examinations: Sequence[Examination], role: Dsn, *, yes: bool) -> bool:
    """Show the remedies, ask, and run them. Returns whether there were any."""
    from pgrepl.doctor import plan_fixes, run_fixes

    fixes = plan_fixes(examinations, role)
    if not fixes:
        return False
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "doctor --fix asks before it changes anything, and there is no terminal to answer"
                " on",
                hint="Add --yes.",
            )
        for fix in fixes:
            print_line(f"{fix.endpoint}, as {fix.endpoint.dsn}:", err=True)
            for statement in fix.statements:
                print_line(f"  {statement};", err=True)
        count = sum(len(fix.statements) for fix in fixes)
        ask(f"run {count} {'statement' if count == 1 else 'statements'}?")
    run_fixes(fixes, lambda endpoint, sql: print_line(f"{endpoint}: {sql}", err=True))
    return True


def _as_json(examination: Examination) -> dict[str, Any]:
    return {
        "area": examination.area.value,
        "name": examination.name,
        "findings": [
            {
                "check": finding.check,
                "status": finding.status.value,
                "message": finding.message,
                "objects": list(finding.objects),
                "sql": list(finding.remedy.sql) if finding.remedy else [],
                "shell": list(finding.remedy.shell) if finding.remedy else [],
                "then": finding.remedy.then if finding.remedy else None,
            }
            for finding in examination.findings
        ],
    }


def _print_lines(examinations: Sequence[Examination]) -> None:
    """Print a line a finding, its remedy indented below: to be read in a log, or grepped."""
    for examination in examinations:
        title = examination.title
        for finding in examination.findings:
            status = finding.status.value
            print_line(f"{status:8} {title:14} {finding.check:22} {finding.message}")
            for line in _remedy_lines(finding):
                print_line(f"{'':8} {line}")
    print_line(_summary(examinations))


def _print_table(examinations: Sequence[Examination]) -> None:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    console = make_console()
    for examination in examinations:
        table = Table(
            title=Text(printable(examination.title)), title_justify="left", expand=True, box=None
        )
        table.add_column("", no_wrap=True)
        table.add_column("check", no_wrap=True)
        table.add_column("finding", ratio=1)
        for finding in examination.findings:
            status = finding.status.value
            parts = [Text(printable(finding.message))]
            parts += [Text(printable(line), style="cyan") for line in _remedy_lines(finding)]
            table.add_row(Text(status, style=_COLOURS[status]), finding.check, Group(*parts))
        console.print(table)
        console.print()
    console.print(_summary(examinations), highlight=False)


def _remedy_lines(finding: Finding) -> list[str]:
    remedy: Remedy | None = finding.remedy
    if remedy is None:
        return []
    lines = [f"sql:   {statement};" for statement in remedy.sql]
    lines += [f"shell: {command}" for command in remedy.shell]
    if remedy.then is not None:
        lines.append(f"then:  {remedy.then}")
    return lines


def _summary(examinations: Sequence[Examination]) -> str:
    counts: dict[str, int] = {}
    for examination in examinations:
        for finding in examination.findings:
            counts[finding.status.value] = counts.get(finding.status.value, 0) + 1
    order = ("ok", "warning", "failure", "skipped")
    return ", ".join(_counted(counts[status], status) for status in order if status in counts)


def _counted(count: int, status: str) -> str:
    return counted(count, status) if status in ("warning", "failure") else f"{count} {status}"
