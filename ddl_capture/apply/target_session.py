"""The settings under which a statement runs inside the caller's transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg.sql import SQL, Identifier

from pgrepl.postgres.connect import Connection

__all__ = [
    "LOCK_TIMEOUT",
    "PLAIN",
    "Environment",
    "in_force",
    "make_environment",
    "resolve_schemas",
]

#: Readers of a table must not stand in a queue behind DDL that itself waits for one of them.
LOCK_TIMEOUT = "10s"
_NOTHING = "pg_catalog"
#: Texts are converted to standard strings when they are read.
_CONVERTED = "standard_conforming_strings"


@dataclass(frozen=True, slots=True)
class Environment:
    """What a statement means depends on it: how names are found and constants are read."""

    path: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Settings of the source whose values the target does not know.
    lacking: frozenset[str] = frozenset()
    #: Whether the source told its settings.
    is_known: bool = True


#: That of pgrepl's own statements, and of what PostgreSQL printed for it.
PLAIN = Environment()


def make_environment(
    connection: Connection, path: Sequence[str], settings: Mapping[str, str]
) -> Environment:
    """Return the environment of a statement on the source, as far as the target can have it."""
    wanted = {name: value for name, value in settings.items() if name != _CONVERTED}
    if _try(connection, wanted):
        lacking: frozenset[str] = frozenset()
    else:
        lacking = frozenset(
            name for name, value in wanted.items() if not _try(connection, {name: value})
        )
    known = {name: value for name, value in wanted.items() if name not in lacking}
    return Environment(path, known, lacking, is_known=bool(settings))


def _try(connection: Connection, settings: dict[str, str]) -> bool:
    if not settings:
        return True
    try:
        with connection.transaction(force_rollback=True):
            _set(connection, settings)
    except psycopg.DataError:
        # A time zone, a locale or a configuration that only the source has.
        return False
    return True


@contextmanager
def in_force(connection: Connection, environment: Environment) -> Iterator[None]:
    """Put an environment in force, and back unless an error ends the transaction."""
    path = environment.path
    wanted = {
        **environment.settings,
        "search_path": SQL(", ").join(map(Identifier, path)).as_string() if path else _NOTHING,
        "lock_timeout": LOCK_TIMEOUT,
    }
    rows = connection.execute(
        "select n, pg_catalog.current_setting(n) from pg_catalog.unnest(%s::text[]) n",
        (list(wanted),),
    )
    before: dict[str, str] = dict(rows.fetchall())
    _set(connection, wanted)
    yield
    _set(connection, before)


def _set(connection: Connection, settings: dict[str, str]) -> None:
    connection.execute(
        "select pg_catalog.set_config(key, value, true) from pg_catalog.json_each_text(%s::json)",
        (json.dumps(settings),),
    )


def resolve_schemas(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    """Return where the search path of the moment finds tables and views of these names."""
    rows = connection.execute(
        "select w.name, n.nspname::text from unnest(%s::text[]) as w (name)"
        " cross join lateral pg_catalog.to_regclass(pg_catalog.quote_ident(w.name)) as r (oid)"
        " join pg_catalog.pg_class c on c.oid = r.oid"
        " join pg_catalog.pg_namespace n on n.oid = c.relnamespace",
        (list(names),),
    )
    return dict(rows.fetchall())
