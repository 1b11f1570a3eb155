"""The commands that fix every failure, and give what warnings ask for, as one script for psql."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgrepl.doctor.finding import Examination, Finding
from pgrepl.errors import ConfigError
from pgrepl.terminal import printable

__all__ = ["psql_script"]

_HEADER = """\
-- Made by pgrepl doctor --sql. Run it as a superuser of each server, for example:
--   pgrepl doctor --sql | psql -X -v ON_ERROR_STOP=1 -U postgres -d postgres
"""


def psql_script(examinations: Iterable[Examination]) -> str:
    """Return a script that fixes what failed and gives what is offered, the rest in comments."""
    parts = [line for examination in examinations for line in _section(examination)]
    return _HEADER + "\n".join(parts) + "\n" if parts else "-- Nothing to fix.\n"


def _section(examination: Examination) -> Iterator[str]:
    findings = [finding for finding in examination.findings if finding.is_in_script]
    if not findings:
        return
    yield f"\n-- {examination.title}"
    if any(finding.remedy and finding.remedy.sql for finding in findings):
        # Keep the user that psql was started with; go to this server and database.
        yield f"\\connect -reuse-previous=on {_argument(examination.psql_conninfo or '')}"
        # A remedy that waits for a lock makes all sessions queued after it wait too.
        yield "SET lock_timeout = '10s';"
    for finding in findings:
        yield from _commands(finding)


def _argument(conninfo: str) -> str:
    """Quote an argument of a psql command, as pg_dump does: like an identifier."""
    if "\n" in conninfo or "\r" in conninfo:
        raise ConfigError(
            "psql cannot connect to a database whose name holds a line break",
            hint="Run what pgrepl doctor --json prints by hand.",
        )
    return '"' + conninfo.replace('"', '""') + '"'


def _commands(finding: Finding) -> Iterator[str]:
    yield _comment(f"{finding.check}: {finding.message}")
    remedy = finding.remedy
    if remedy is None:
        return
    yield from (f"{statement};" for statement in remedy.sql)
    yield from (_comment(f"in a shell: {command}") for command in remedy.shell)
    if remedy.then is not None:
        yield _comment(f"then: {remedy.then}")


def _comment(text: str) -> str:
    """Keep a text within one comment, whatever a table's name holds."""
    return "-- " + printable(" ".join(text.splitlines()))
