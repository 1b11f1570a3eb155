"""What exists by its name, and what a role may do with it: facts that several commands ask."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg.rows import scalar_row

from pgrepl.postgres.connect import Connection

__all__ = [
    "existing_schemas",
    "extension_schemas",
    "may_call",
    "relation_exists",
    "role_is_superuser",
]


def existing_schemas(connection: Connection, names: Collection[str]) -> Sequence[str]:
    """Return those of the schemas that exist, by name."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(
            "select nspname::text from pg_catalog.pg_namespace where nspname = any (%s) order by 1",
            (list(names),),
        ).fetchall()


def extension_schemas(connection: Connection) -> dict[str, str]:
    """Return the extensions of a database, each with its schema."""
    rows = connection.execute(
        "select x.extname::text, n.nspname::text from pg_catalog.pg_extension x"
        " join pg_catalog.pg_namespace n on n.oid = x.extnamespace"
    )
    return dict(rows.fetchall())


def relation_exists(connection: Connection, schema: str | None, name: str) -> bool:
    """Whether a schema has a relation of this name, whatever its kind."""
    ((found,),) = connection.execute(
        "select exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n"
        " on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s)",
        (schema, name),
    ).fetchall()
    return bool(found)


def may_call(connection: Connection, schema: str, function: str, argument_count: int) -> bool:
    """Whether a function exists that the role of this session may call."""
    ((may,),) = connection.execute(
        "select exists (select from pg_catalog.pg_proc p join pg_catalog.pg_namespace n"
        " on n.oid = p.pronamespace"
        " where n.nspname = %s and p.proname = %s and p.pronargs = %s"
        " and has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute'))",
        (schema, function, argument_count),
    ).fetchall()
    return bool(may)


def role_is_superuser(connection: Connection) -> bool:
    """Whether the role of this session is a superuser."""
    ((is_super,),) = connection.execute(
        "select rolsuper from pg_catalog.pg_roles where rolname = current_user"
    ).fetchall()
    return bool(is_super)
