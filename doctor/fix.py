"""Run the remedies that doctor prints, as a role that may: ``pgrepl doctor --fix --as DSN``.

What is run is what ``pgrepl doctor --sql`` prints, statement by statement, each on the server that
was examined. Whatever no statement can do (a restart, a command for a shell) stays for a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from psycopg.conninfo import make_conninfo

from pgrepl.config.dsn import Dsn, Endpoint, Side
from pgrepl.doctor.finding import Area, Examination
from pgrepl.errors import UsageError
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import connect
from pgrepl.postgres.sqlstate import translated

__all__ = ["Fix", "plan_fixes", "run_fixes"]

_STAGE = "doctor"
#: Where a server is, which each examination knows already.
_PLACE = frozenset({"host", "hostaddr", "port", "dbname", "service"})


@dataclass(frozen=True, slots=True)
class Fix:
    """The statements for one server, and how the privileged role reaches it."""

    endpoint: Endpoint
    statements: tuple[str, ...]


def plan_fixes(examinations: Iterable[Examination], role: Dsn) -> list[Fix]:
    """Return what is to be run where; ``role`` says as whom, and may say where for one server.

    Raises
    ------
    UsageError
        when ``role`` names one server, and several are to be fixed.

    """
    planned = []
    for examination in examinations:
        statements = tuple(
            statement
            for finding in examination.findings
            if finding.is_in_script and finding.remedy is not None
            for statement in finding.remedy.sql
        )
        if statements and examination.psql_conninfo is not None:
            side = Side.SOURCE if examination.area is Area.SOURCE else Side.TARGET
            way = Dsn(make_conninfo(examination.psql_conninfo, **role.parameters))
            planned.append(Fix(Endpoint(side, examination.name, way), statements))
    named = sorted(_PLACE & set(role.parameters))
    if len(planned) > 1 and named:
        servers = ", ".join(str(fix.endpoint) for fix in planned)
        raise UsageError(
            f"--as names one server ({', '.join(named)}), and several are to be fixed: {servers}",
            hint="Give --as only user and password: each server's place is in pgrepl.toml.",
        )
    return planned


def run_fixes(fixes: Sequence[Fix], say: Callable[[Endpoint, str], None]) -> None:
    """Run the statements, each on its own, as psql would; the first that fails ends it.

    Raises
    ------
    SourceError, TargetError
        when a server refuses one. What ran before stays: each statement is right by itself.

    """
    for fix in fixes:
        with connect(fix.endpoint, _STAGE) as connection:
            for statement in fix.statements:
                say(fix.endpoint, statement)
                with translated(fix.endpoint, "cannot run the remedy"):
                    # One that waits for a lock makes all sessions queued after it wait too.
                    connection.execute("set lock_timeout = '10s'")
                    connection.execute(statement.encode())
                reach("doctor.statement_run")
