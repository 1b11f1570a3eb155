"""Tables and sequences of a source that pgrepl's role may not read, and what opens them.

The stream needs no privilege on a table, so that one made later is replicated all the same. Only
who reads it, a copy or a comparison, cannot; and that must keep nobody from reading the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier

from pgrepl.config.dsn import Endpoint
from pgrepl.config.naming import TableSelection, shown_name
from pgrepl.errors import SourceError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.terminal import command

__all__ = [
    "Unreadable",
    "named",
    "open_them",
    "read_unreadable",
    "read_unreadable_tables",
    "unreadable_error",
]

#: The most that are named in a message.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A row of ``sql/unreadable.sql``."""

    schema: str
    name: str
    root_schema: str
    root_name: str
    is_sequence: bool
    role: str
    may_use_schema: bool
    may_select: bool
    hides_rows: bool

    @property
    def key(self) -> tuple[str, str]:
        """Schema and name on the source."""
        return self.schema, self.name

    @property
    def reason(self) -> str:
        """Why it cannot be read."""
        if self.may_use_schema and self.may_select:
            return f'row security may hide rows from role "{self.role}"'
        return f'role "{self.role}" may not read it'

    def statements(self) -> list[str]:
        """Return what opens it, without semicolons."""
        role = Identifier(self.role)
        kind = SQL("SEQUENCE " if self.is_sequence else "")
        name = Identifier(self.schema, self.name)
        found = []
        if not self.may_use_schema:
            schema = Identifier(self.schema)
            found.append(SQL("GRANT USAGE ON SCHEMA {} TO {}").format(schema, role))
        if not self.may_select:
            found.append(SQL("GRANT SELECT ON {}{} TO {}").format(kind, name, role))
        if self.hides_rows:
            found.append(SQL("ALTER ROLE {} BYPASSRLS").format(role))
        return [statement.as_string() for statement in found]


def read_unreadable(connection: Connection) -> Sequence[Unreadable]:
    """Return what the role of this session on a source may not read."""
    with connection.cursor(row_factory=class_row(Unreadable)) as cursor:
        return cursor.execute(load_query("pgrepl.catalog", "unreadable")).fetchall()


def read_unreadable_tables(
    connection: Connection, selection: TableSelection
) -> Sequence[Unreadable]:
    """Return the replicated tables that the role may not read."""
    return [
        item
        for item in read_unreadable(connection)
        if not item.is_sequence and selection.matches(item.root_schema, item.root_name)
    ]


def open_them(source: str, items: Sequence[Unreadable]) -> str:
    """Return the sentence that says what to run."""
    statements = dict.fromkeys(text for item in items[:_NAMED] for text in item.statements())
    more = "; and so on" if len(items) > _NAMED else ""
    return (
        f"Run there: {'; '.join(statements)}{more}. {command('doctor', source, '--sql')}"
        " prints all of it, and the grants for tables to come."
    )


def unreadable_error(endpoint: Endpoint, items: Sequence[Unreadable]) -> SourceError:
    """Return the error that names them."""
    return SourceError(
        f"{endpoint}: cannot be read: {named(items)}", hint=open_them(endpoint.name, items)
    )


def named(items: Sequence[Unreadable]) -> str:
    """Return names and reasons, of the first few."""
    reasons: dict[str, list[str]] = {}
    for item in items[:_NAMED]:
        reasons.setdefault(item.reason, []).append(shown_name(*item.key))
    shown = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    more = len(items) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown
