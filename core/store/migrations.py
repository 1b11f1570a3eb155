"""The schema ``replication`` on the target, brought up to date by numbered SQL files.

``core/store/sql/NNNN_what.sql`` run in order, each in one transaction with its row in
``replication.schema_version``; a file that ran never runs again and is never edited afterwards.
A schema newer than the newest file, or one that pgrepl did not make, is left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import LiteralString

from pgrepl import __version__
from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SchemaVersionError
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated

__all__ = [
    "Migration",
    "check_schema_version",
    "fit_to_server",
    "has_migrations",
    "has_step",
    "known_migrations",
    "migrate",
    "read_version",
]

_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")

#: How a step says that a column is compressed, where the server can do that.
_LZ4: LiteralString = "compression lz4 not null"

#: "pgrepl" in ASCII: the advisory lock that keeps two programs from migrating at once.
_LOCK_KEY = int.from_bytes(b"pgrepl", "big")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step."""

    version: int
    name: str
    sql: LiteralString


@cache
def known_migrations() -> tuple[Migration, ...]:
    """Return the steps this version of pgrepl brings, in order."""
    steps = []
    for file in resources.files("pgrepl.store").joinpath("sql").iterdir():
        match = _FILE_NAME.fullmatch(file.name)
        if match is not None:
            name = file.name.removesuffix(".sql")
            steps.append(Migration(int(match[1]), match[2], load_query("pgrepl.store", name)))
    return tuple(sorted(steps, key=lambda step: step.version))


def read_version(connection: Connection) -> int | None:
    """Return the version of the schema, 0 when there is none, None when it is not pgrepl's."""
    # By the catalogue, not by to_regclass: that one fails where the role may not use the schema.
    found = connection.execute(
        "select exists (select from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = n.oid and c.relname = 'schema_version'"
        " and a.attname = 'pgrepl_version')"
        " from pg_namespace n where n.nspname = 'replication'"
    ).fetchall()
    if not found:
        return 0
    if found == [(False,)]:
        return None
    ((version,),) = connection.execute(
        "select coalesce(max(version), 0) from replication.schema_version"
    ).fetchall()
    return int(version)


def has_migrations(connection: Connection, version: int) -> bool:
    """Whether every step up to this version ran; the schema must exist."""
    return _read_applied(connection).issuperset(range(1, version + 1))


def has_step(connection: Connection, name: str) -> bool:
    """Whether the step of this name ran; its number may have changed before it landed."""
    ((is_there,),) = connection.execute(
        "select exists (select from replication.schema_version where name = %s)", (name,)
    ).fetchall()
    return bool(is_there)


def _read_applied(connection: Connection) -> frozenset[int]:
    """Return the steps that ran. There may be gaps: steps are written apart and come together."""
    return frozenset() if read_version(connection) == 0 else _read_steps(connection)


def _read_steps(connection: Connection) -> frozenset[int]:
    rows = connection.execute("select version from replication.schema_version").fetchall()
    return frozenset(version for (version,) in rows)


def check_schema_version(version: int | None) -> None:
    """Refuse a schema that this version of pgrepl must not touch.

    Raises
    ------
    SchemaVersionError
        when the schema is newer than pgrepl, or not pgrepl's.

    """
    if version is None:
        raise SchemaVersionError(
            'target: a schema "replication" exists that pgrepl did not make',
            hint="Rename it: ALTER SCHEMA replication RENAME TO replication_old.",
        )
    newest = known_migrations()[-1].version
    if version > newest:
        raise SchemaVersionError(
            f'target: schema "replication" has version {version},'
            f" pgrepl {__version__} knows versions up to {newest}",
            hint="Upgrade pgrepl on this machine.",
        )


def migrate(connection: Connection, endpoint: Endpoint) -> int:
    """Bring the schema up to date and return how many steps that took.

    The connection must be in autocommit mode: each step is a transaction of its own.
    """
    with translated(endpoint, 'cannot migrate schema "replication"'):
        done = 0
        applied = _read_checked(connection)
        missing = [step for step in known_migrations() if step.version not in applied]
        for step in missing:
            # Each step locks and looks again, so that programs started at once take turns.
            with connection.transaction():
                connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK_KEY,))
                if step.version in _read_checked(connection):
                    continue
                has_lz4 = _LZ4 not in step.sql or _has_lz4(connection)
                connection.execute(fit_to_server(step.sql, has_lz4=has_lz4))
                connection.execute(
                    "insert into replication.schema_version (version, name, pgrepl_version)"
                    " values (%s, %s, %s)",
                    (step.version, step.name, __version__),
                )
                reach("target.before_migration_commit")
                done += 1
            reach("target.migrated")
        return done


def _read_checked(connection: Connection) -> frozenset[int]:
    """Return the steps that ran, of a schema that this version of pgrepl may touch."""
    version = read_version(connection)
    check_schema_version(version)
    return _read_steps(connection) if version else frozenset()


def fit_to_server(statements: LiteralString, *, has_lz4: bool) -> LiteralString:
    """Return a step as the server can run it: one that was built without lz4 uses its own pglz."""
    return statements if has_lz4 else statements.replace(_LZ4, "not null")


def _has_lz4(connection: Connection) -> bool:
    ((has_lz4,),) = connection.execute(
        "select 'lz4' = any (enumvals) from pg_settings where name = 'default_toast_compression'"
    ).fetchall()
    return bool(has_lz4)
