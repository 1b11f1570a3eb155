"""Views in the way of a column that gets another type: dropped, and made again as they were.

PostgreSQL changes no column that a view uses. All of it happens in the transaction of whoever
changes the column, so that nobody sees a view missing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import errors
from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier

from pgrepl.config.dsn import Endpoint
from pgrepl.config.naming import shown_name
from pgrepl.errors import TargetError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import reason

__all__ = ["DependentView", "drop_views", "make_views"]

_KINDS = {"m": "materialized view", "r": "rule of table", "p": "rule of table"}


@dataclass(frozen=True, slots=True)
class DependentView:
    """A row of ``sql/dependent_views.sql``."""

    oid: int
    schema: str
    name: str
    #: ``pg_class.relkind`` of what has the rule that uses the column.
    kind: str
    owner: str
    definition: str | None
    options: Sequence[str]
    statements: Sequence[str]
    grants: Sequence[str] | None

    def __str__(self) -> str:
        """Return the name for messages."""
        return shown_name(self.schema, self.name)

    @property
    def identifier(self) -> Identifier:
        """The view in a statement."""
        return Identifier(self.schema, self.name)


def drop_views(
    connection: Connection, endpoint: Endpoint, oids: Collection[int], columns: Collection[str]
) -> Sequence[DependentView]:
    """Drop the views that use columns of some tables, and return what makes them again.

    Raises
    ------
    TargetError
        naming what cannot be made again, or what stands on one of them.

    """
    with connection.cursor(row_factory=class_row(DependentView)) as cursor:
        views = cursor.execute(
            load_query("pgrepl.resync", "dependent_views"),
            {"oids": list(oids), "columns": list(columns)},
        ).fetchall()
    for view in views:
        if view.kind != "v":
            raise TargetError(
                f"{endpoint}: {_KINDS.get(view.kind, 'relation')} {view} uses a column whose type"
                f" is another one on the source: {', '.join(sorted(columns))}",
                hint="Drop it, run the same command again, and make it again.",
            )
    if views:
        names = SQL(", ").join(view.identifier for view in views)
        try:
            connection.execute(SQL("drop view {}").format(names))
        except (errors.DependentObjectsStillExist, errors.InsufficientPrivilege) as exc:
            detail = exc.diag.message_detail or "Their owner can drop them"
            raise TargetError(
                f"{endpoint}: views use a column whose type is another one on the source, and"
                f" cannot be made again: {reason(exc)}",
                hint=f"{detail}. Drop what is named, run the same command, and make it again.",
            ) from exc
    return views


def make_views(connection: Connection, endpoint: Endpoint, views: Sequence[DependentView]) -> None:
    """Make views again, with all that stood on them.

    Raises
    ------
    TargetError
        naming one that the new columns do not suit.

    """
    for view in views:
        try:
            _make(connection, view)
        except (psycopg.ProgrammingError, psycopg.NotSupportedError) as exc:
            raise TargetError(
                f"{endpoint}: view {view} does not work with the source's columns: {reason(exc)}",
                hint="Drop it, run the same command again, and make it as it should be.",
            ) from exc


def _make(connection: Connection, view: DependentView) -> None:
    # Options, definition and statements are as PostgreSQL itself printed them.
    options = SQL(", ").join(map(SQL, view.options or ()))
    connection.execute(
        SQL("create view {}{} as {}").format(
            view.identifier,
            SQL(" with ({})").format(options) if view.options else SQL(""),
            SQL(view.definition or ""),
        )
    )
    for statement in view.statements:
        connection.execute(statement.encode())
    connection.execute(
        SQL("alter view {} owner to {}").format(view.identifier, Identifier(view.owner))
    )
    if view.grants is None:
        return
    # Whatever default privileges have given.
    given = connection.execute(
        "select distinct case when x.grantee <> 0 then pg_get_userbyid(x.grantee)::text end"
        " from pg_class c cross join aclexplode(c.relacl) x where c.oid = %s::regclass",
        (view.identifier.as_string(connection),),
    ).fetchall()
    for grantee in {view.owner, *(grantee for (grantee,) in given)}:
        role = SQL("public") if grantee is None else Identifier(grantee)
        connection.execute(SQL("revoke all on {} from {}").format(view.identifier, role))
    for statement in view.grants:
        connection.execute(statement.encode())
