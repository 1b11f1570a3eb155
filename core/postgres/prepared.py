"""Queries that a session prepares once and keeps, whatever is altered or rolled back in it.

psycopg forgets what it has prepared with every ALTER, DROP and ROLLBACK, for that may mean
something else then. What is asked of PostgreSQL's own catalogue does not, and planning such a query
takes several times as long as answering it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Any, LiteralString
from weakref import WeakKeyDictionary

from psycopg import Cursor
from psycopg.sql import SQL, Identifier, Literal

from pgrepl.postgres.connect import Connection

__all__ = ["ask_catalog"]

#: A parameter, or a percent sign that is doubled for psycopg.
_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")

#: The names of the queries that each session has prepared.
_prepared: WeakKeyDictionary[Connection, set[str]] = WeakKeyDictionary()


def ask_catalog(
    cursor: Cursor[Any], query: LiteralString, parameters: Mapping[str, object]
) -> None:
    """Execute a query of PostgreSQL's catalogue in which each parameter has a cast.

    It is prepared in a session in which psycopg prepares nothing; in others psycopg would
    deallocate it with its own.
    """
    connection = cursor.connection
    if connection.prepare_threshold is not None:
        cursor.execute(query, parameters)
        return
    name, text, wanted = _numbered(query)
    prepared = _prepared.setdefault(connection, set())
    if name not in prepared:
        cursor.execute(SQL("prepare {} as ").format(Identifier(name)).as_string().encode() + text)
        prepared.add(name)
    values = SQL(", ").join(Literal(parameters[parameter]) for parameter in wanted)
    cursor.execute(SQL("execute {} ({})").format(Identifier(name), values))


@cache
def _numbered(query: str) -> tuple[str, bytes, tuple[str, ...]]:
    """Return a name for a query, its text with numbered parameters, and their names in order."""
    wanted: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        name = found[1]
        return "%" if name is None else f"${wanted.setdefault(name, len(wanted) + 1)}"

    text = _PLACEHOLDER.sub(numbered, query).encode()
    return f"pgrepl_{sha256(text).hexdigest()[:16]}", text, tuple(wanted)
