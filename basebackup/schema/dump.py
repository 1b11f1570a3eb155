"""The source's schema as ``pg_dump`` prints it, under a snapshot.

The conninfo goes to ``pg_dump`` through the environment: ``ps`` shows arguments to all users.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from psycopg.conninfo import conninfo_to_dict

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SourceError
from pgrepl.postgres.connect import conninfo
from pgrepl.postgres.programs import find_client
from pgrepl.syntax.parse import SqlSyntaxError, StatementTexts, Tree, parse, quoted_names

__all__ = ["Dump", "read_dump"]

_RESTRICT = "\\restrict "
_UNRESTRICT = "\\unrestrict "

# What libpq takes from the environment instead of a conninfo; the others have no variable.
_VARIABLES = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "passfile": "PGPASSFILE",
    "service": "PGSERVICE",
    "options": "PGOPTIONS",
    "application_name": "PGAPPNAME",
    "sslmode": "PGSSLMODE",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
    "sslcrldir": "PGSSLCRLDIR",
    "sslcompression": "PGSSLCOMPRESSION",
    "sslsni": "PGSSLSNI",
    "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION",
    "ssl_max_protocol_version": "PGSSLMAXPROTOCOLVERSION",
    "channel_binding": "PGCHANNELBINDING",
    "gssencmode": "PGGSSENCMODE",
    "krbsrvname": "PGKRBSRVNAME",
    "gsslib": "PGGSSLIB",
    "requirepeer": "PGREQUIREPEER",
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "client_encoding": "PGCLIENTENCODING",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
}


@dataclass(frozen=True, slots=True)
class Dump:
    """The statements that make the schema: before the data, and after it."""

    before_data: list[Tree]
    after_data: list[Tree]
    texts: StatementTexts = field(default_factory=StatementTexts)


def read_dump(
    endpoint: Endpoint,
    server_major: int,
    schemas: Iterable[str],
    *,
    excluded_tables: Iterable[tuple[str, str]],
    snapshot: str | None,
    lock_timeout_s: int,
) -> Dump:
    """Run ``pg_dump`` for the schemas given, without the tables given."""
    command = [
        str(find_client("pg_dump", server_major)),
        "--schema-only",
        "--no-owner",
        "--no-tablespaces",
        "--no-publications",
        "--no-subscriptions",
        "--no-security-labels",
        f"--lock-wait-timeout={lock_timeout_s * 1000}",
        *(f"--schema={quoted_names(schema)}" for schema in schemas),
        *(f"--exclude-table={quoted_names(*table)}" for table in excluded_tables),
    ]
    if snapshot is not None:
        command.append(f"--snapshot={snapshot}")
    # Side by side: each spends its time on questions to the catalogue.
    with ThreadPoolExecutor() as pool:
        scripts = pool.map(
            lambda section: _run([*command, f"--section={section}"], endpoint),
            ("pre-data", "post-data"),
        )
        before, after = map(_without_restrict, scripts)
    try:
        return Dump(parse(before), parse(after), StatementTexts(before, after))
    except SqlSyntaxError as exc:
        raise SourceError(
            f"{endpoint}: pg_dump printed what PostgreSQL's grammar does not know: {exc}",
            hint="Please report this with the version of pg_dump.",
        ) from exc


def _run(command: list[str], endpoint: Endpoint) -> str:
    # As bytes: reading texts would change the ends of lines, and those in names and constants.
    done = subprocess.run(command, capture_output=True, env=_environment(endpoint), check=False)
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        said = [line for line in lines if "error:" in line]
        reason = said[0].split("error:", 1)[1].strip() if said else "it says nothing"
        raise SourceError(
            f"{endpoint}: pg_dump failed: {reason[:1].lower()}{reason[1:]}",
            hint="Run pgrepl doctor: it finds missing privileges; then run the same command again.",
        )
    return done.stdout.decode()


def _environment(endpoint: Endpoint) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key != "PGDATABASE"}
    parameters = conninfo_to_dict(conninfo(endpoint, "basebackup"))
    named = {
        _VARIABLES[key]: str(value)
        for key, value in parameters.items()
        if key in _VARIABLES and value is not None
    }
    # What has no variable, such as keepalives, is no secret and of no use to a short program.
    return {**kept, **named, "LC_ALL": "C"}


def _without_restrict(script: str) -> str:
    """Remove the two lines for psql that newer versions print around a dump."""
    lines = script.split("\n")
    for index, line in enumerate(lines):
        if line.startswith(_RESTRICT):
            key = line.removeprefix(_RESTRICT)
            last = len(lines) - 1 - lines[::-1].index(_UNRESTRICT + key)
            lines[index] = lines[last] = ""
            break
        if line and not line.startswith("--"):
            break
    return "\n".join(lines)
