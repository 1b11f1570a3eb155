"""The settings under which a statement runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from psycopg.sql import SQL, Identifier

from pgrepl.postgres.connect import Connection

__all__ = ["LOCK_TIMEOUT", "resolve_schemas", "search_path"]

#: Readers of a table must not stand in a queue behind DDL that itself waits for one of them.
LOCK_TIMEOUT = "10s"
_NOTHING = "pg_catalog"


@contextmanager
def search_path(connection: Connection, path: Sequence[str]) -> Iterator[None]:
    """Set search path and lock timeout; set them back unless an error ends the transaction."""
    wanted = SQL(", ").join(map(Identifier, path)).as_string() if path else _NOTHING
    ((old_path, old_timeout),) = connection.execute(
        "select current_setting('search_path'), current_setting('lock_timeout')"
    ).fetchall()
    _set(connection, wanted, LOCK_TIMEOUT)
    yield
    _set(connection, old_path, old_timeout)


def _set(connection: Connection, path: str, lock_timeout: str) -> None:
    connection.execute(
        "select pg_catalog.set_config('search_path', %s, true),"
        " pg_catalog.set_config('lock_timeout', %s, true)",
        (path, lock_timeout),
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
