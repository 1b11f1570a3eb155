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
    "put_in_force",
    "resolve_schemas",
]

#: Readers of a table must not stand in a queue behind DDL that itself waits for one of them.
LOCK_TIMEOUT = "10s"
_NOTHING = "pg_catalog"
#: Texts are converted to standard strings when they are read.
_CONVERTED = "standard_conforming_strings"
_CONFIGURATION = "default_text_search_config"
_BUILT_IN = "pg_catalog."
#: Settings that a target is known to accept together.
_KNOWN: set[frozenset[tuple[str, str]]] = set()


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
    if _is_known(connection, wanted):
        lacking: frozenset[str] = frozenset()
    else:
        lacking = frozenset(
            name for name, value in wanted.items() if not _try(connection, {name: value})
        )
    known = {name: value for name, value in wanted.items() if name not in lacking}
    return Environment(path, known, lacking, is_known=bool(settings))


def _is_known(connection: Connection, settings: dict[str, str]) -> bool:
    """Whether the target knows all these values; what it knew once is not asked again."""
    info = connection.info
    key = frozenset({("target", f"{info.host} {info.port} {info.dbname}"), *settings.items()})
    if key in _KNOWN:
        return True
    is_known = _try(connection, settings)
    # A configuration that users made can be dropped.
    if is_known and settings.get(_CONFIGURATION, _BUILT_IN).startswith(_BUILT_IN):
        _KNOWN.add(key)
    return is_known


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
    before = put_in_force(connection, environment)
    yield
    _set(connection, before)


def put_in_force(connection: Connection, environment: Environment) -> dict[str, str]:
    """Put an environment in force until the savepoint is rolled back; return what was before."""
    path = environment.path
    wanted = {
        **environment.settings,
        "search_path": SQL(", ").join(map(Identifier, path)).as_string() if path else _NOTHING,
        "lock_timeout": LOCK_TIMEOUT,
    }
    return _set(connection, wanted)


def _set(connection: Connection, settings: dict[str, str]) -> dict[str, str]:
    """Set what is to be set until the transaction ends, and return what was set before."""
    rows = connection.execute(
        "with given as materialized (select key, value, pg_catalog.current_setting(key) as before"
        " from pg_catalog.json_each_text(%s::json))"
        " select key, before, pg_catalog.set_config(key, value, true) from given",
        (json.dumps(settings),),
    )
    return {key: before for key, before, _ in rows}


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
