"""The role that owns a source's schemas on the target: a second line of defence.

PostgreSQL runs much of what is in a table's or view's definition as the owner of it. If that is not
pgrepl's own role but one that can neither log in nor do anything else, such code finds nothing of
the other sources. Objects are made by pgrepl's role, with its default privileges, and then given
away; being a member that inherits, it goes on doing everything an owner may. No boundary rests on
this: a function that runs as pgrepl's role is not stopped by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg import errors
from psycopg.rows import scalar_row
from psycopg.sql import SQL, Composed, Identifier

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import TargetError
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.prepared import ask_catalog
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated

__all__ = [
    "OwnerRole",
    "check_owner",
    "drop_owner",
    "ensure_owner",
    "hand_over",
    "hand_over_statements",
    "owns",
    "read_owner",
]

#: From this version on a membership says itself what it is good for.
_OPTIONS_SINCE = 160000


@dataclass(frozen=True, slots=True)
class OwnerRole:
    """A row of ``sql/owner_role.sql``."""

    #: As it was asked for.
    name: str
    exists: bool
    #: Whether it is the role of the session itself.
    is_self: bool
    #: Why it is not owned by pgrepl; None: it is, or can be.
    foreign_reason: str | None
    is_usable: bool
    #: Of the session's role: whether it has the privileges of roles that it is a member of, and
    #: whether it may make roles.
    inherits: bool
    may_create: bool

    @property
    def is_foreign(self) -> bool:
        """Whether it is a role of that name which pgrepl must not use."""
        return self.foreign_reason is not None and not self.is_self

    def make_statements(self, role: str, version_num: int) -> list[Composed]:
        """Return what makes it usable for pgrepl's role."""
        name, member = Identifier(self.name), Identifier(role)
        statements = []
        if not self.exists:
            statements.append(SQL("CREATE ROLE {} NOLOGIN").format(name))
        options = SQL(" WITH INHERIT TRUE, SET TRUE" if version_num >= _OPTIONS_SINCE else "")
        statements.append(SQL("GRANT {} TO {}{}").format(name, member, options))
        if not self.inherits and version_num < _OPTIONS_SINCE:
            statements.append(SQL("ALTER ROLE {} INHERIT").format(member))
        return statements


def read_owner(connection: Connection, name: str) -> OwnerRole:
    """Return what is known of a source's role on the target."""
    (row,) = connection.execute(
        load_query("pgrepl.catalog", "owner_role"), {"role": name}
    ).fetchall()
    return OwnerRole(name, *row)


def check_owner(connection: Connection, endpoint: Endpoint, name: str) -> OwnerRole:
    """Return what is known of a source's role, unless it is not owned by pgrepl.

    Raises
    ------
    TargetError
        when the name is taken.

    """
    with translated(endpoint, "cannot look for the owner of the schemas"):
        found = read_owner(connection, name)
    if found.is_foreign:
        raise TargetError(
            f'{endpoint}: role "{name}", which is to own the schemas of the source, is not owned by'
            f" pgrepl: {found.foreign_reason}",
            hint='Name another with owner = "..." in the section of the source, or rename that'
            " role.",
        )
    return found


def ensure_owner(connection: Connection, endpoint: Endpoint, name: str) -> str | None:
    """Make a source's role where the session's may, and return it; None: do without it."""
    found = check_owner(connection, endpoint, name)
    if found.is_self:
        return None
    if not found.exists and found.may_create:
        with translated(endpoint, "cannot make the owner of the schemas"):
            _make(connection, found)
            found = read_owner(connection, name)
    return name if found.is_usable else None


def _make(connection: Connection, role: OwnerRole) -> None:
    try:
        with connection.transaction():
            for statement in role.make_statements(
                connection.execute("select current_user").fetchall()[0][0],
                connection.info.server_version,
            ):
                connection.execute(statement)
    except (errors.DuplicateObject, errors.UniqueViolation):
        # Roles are the whole server's: a copy into another database of it was quicker.
        return
    except errors.InsufficientPrivilege:
        # CREATEROLE is not all it takes everywhere. doctor names what is missing.
        return


def hand_over_statements(
    connection: Connection, schemas: Iterable[str], owner: str
) -> Sequence[str]:
    """Return the statements that give to a role what ours owns in some schemas, and them."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        ask_catalog(
            cursor,
            load_query("pgrepl.catalog", "hand_over"),
            {"schemas": list(schemas), "role": owner},
        )
        return cursor.fetchall()


def hand_over(connection: Connection, schemas: Iterable[str], owner: str) -> None:
    """Let a role own what ours made in some schemas."""
    for statement in hand_over_statements(connection, schemas, owner):
        # The server has quoted the names.
        connection.execute(statement.encode())


def owns(connection: Connection, schemas: Iterable[str], owner: str) -> bool:
    """Whether a role owns one of these schemas, and ours may act for it."""
    ((is_so,),) = connection.execute(
        "select exists (select from pg_catalog.pg_namespace n"
        " join pg_catalog.pg_roles r on r.oid = n.nspowner where n.nspname = any (%s)"
        " and r.rolname = %s and r.rolname <> current_user"
        " and pg_catalog.pg_has_role(r.oid, 'USAGE'))",
        (list(schemas), owner),
    ).fetchall()
    return bool(is_so)


def drop_owner(connection: Connection, owner: str) -> str | None:
    """Drop a source's role, or return why it stays.

    Raises
    ------
    UndefinedObject
        when there is none.

    """
    statement = SQL("DROP ROLE {}").format(Identifier(owner))
    try:
        connection.execute(statement)
    except errors.DependentObjectsStillExist:
        return "it owns other objects, or has privileges on some"
    except errors.InsufficientPrivilege:
        return f"a role with CREATEROLE may drop it: {statement.as_string()}"
    return None
