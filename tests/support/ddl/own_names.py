"""Copies under the names of their tables, so that both sides can be compared by names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from psycopg.sql import SQL, Identifier

from tests.support.database import Database

_NAMED = """
select s.target_schema::text, x.target_name::text, x.table_name::text
  from replication.target_table x
  join replication.target_schema s
    on s.source_id = x.source_id and s.source_schema = x.schema_name
"""


@contextmanager
def own_names(target: Database) -> Iterator[None]:
    """Give copies on a target that have other names those of their tables for a while."""
    named = target.rows(_NAMED)
    _rename(target, named)
    try:
        yield
    finally:
        _rename(target, [(schema, table, name) for schema, name, table in named])


def _rename(target: Database, moved: Sequence[tuple[str, str, str]]) -> None:
    """Rename tables, which may have the names of one another."""
    statement = SQL("alter table {} rename to {}")
    with target.connect() as connection:
        for number, (schema, was, _) in enumerate(moved):
            connection.execute(statement.format(Identifier(schema, was), Identifier(f"m{number}")))
        for number, (schema, _, name) in enumerate(moved):
            connection.execute(statement.format(Identifier(schema, f"m{number}"), Identifier(name)))
