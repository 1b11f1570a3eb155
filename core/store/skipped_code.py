"""The rows of ``replication.skipped_code``: what rests on code of a source and was not made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.config.naming import shown_name
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.encodings import fit_text

__all__ = [
    "SkippedCode",
    "forget_skipped",
    "forget_skipped_named",
    "forget_skipped_of",
    "move_skipped",
    "move_skipped_schema",
    "read_skipped",
    "read_skipped_of",
    "record_skipped",
    "rename_skipped_named",
    "rename_skipped_of",
]

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedCode:
    """Something of a source that is not on the target because of what it calls."""

    kind: str
    #: Of the table, domain, type or view, by its name on the source.
    schema_name: str
    table_name: str
    #: Of the constraint, column, index or statistics; empty: the thing itself.
    name: str
    definition: str | None
    reason: str

    @property
    def shown(self) -> str:
        """The name for messages."""
        place = shown_name(self.schema_name, self.table_name)
        return f"{self.name} of {place}" if self.name else place


def record_skipped(connection: Connection, source_id: int, items: Iterable[SkippedCode]) -> None:
    """Write down what was not made; what was there of the same name is replaced."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into replication.skipped_code"
            " (source_id, kind, schema_name, table_name, name, definition, reason)"
            " values (%s, %s, %s, %s, %s, %s, %s)"
            " on conflict (source_id, kind, schema_name, table_name, name) do update"
            " set definition = excluded.definition, reason = excluded.reason, skipped_at = now()",
            [
                (
                    source_id,
                    item.kind,
                    item.schema_name,
                    item.table_name,
                    fit_text(connection, item.name),
                    None if item.definition is None else fit_text(connection, item.definition),
                    fit_text(connection, item.reason),
                )
                for item in items
            ],
        )


def read_skipped(connection: Connection, source_id: int) -> Sequence[SkippedCode]:
    """Return what was not made of a source, in the order of names."""
    with connection.cursor(row_factory=class_row(SkippedCode)) as cursor:
        return cursor.execute(
            "select kind, schema_name::text, table_name::text, name::text, definition, reason"
            " from replication.skipped_code where source_id = %s"
            " order by schema_name, table_name, kind, name",
            (source_id,),
        ).fetchall()


def forget_skipped(connection: Connection, source_id: int) -> None:
    """Forget all that was not made of a source, because what was made is dropped."""
    connection.execute("delete from replication.skipped_code where source_id = %s", (source_id,))


def read_skipped_of(
    connection: Connection, source_id: int, table: _Name
) -> frozenset[tuple[str, str]]:
    """Return what was not made of a table, by kind and name."""
    rows = connection.execute(
        "select kind, name::text from replication.skipped_code"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *table),
    )
    return frozenset((str(kind), str(name)) for kind, name in rows)


def forget_skipped_of(
    connection: Connection,
    source_id: int,
    kinds: Iterable[str],
    table: _Name,
    name: str | None = None,
) -> None:
    """Forget what was not made of a table, domain, type or view: all of some kinds, or one."""
    connection.execute(
        "delete from replication.skipped_code where source_id = %s and kind = any (%s)"
        " and schema_name = %s and table_name = %s and name = coalesce(%s, name)",
        (source_id, list(kinds), *table, name),
    )


def forget_skipped_named(
    connection: Connection, source_id: int, kinds: Iterable[str], schema: str, name: str
) -> None:
    """Forget what was not made and has a name of its own in its schema, as an index has."""
    connection.execute(
        "delete from replication.skipped_code where source_id = %s and kind = any (%s)"
        " and schema_name = %s and name = %s",
        (source_id, list(kinds), schema, name),
    )


def rename_skipped_of(
    connection: Connection,
    source_id: int,
    kinds: Iterable[str],
    table: _Name,
    name: str,
    *,
    new_name: str,
) -> None:
    """Give something of a table another name."""
    connection.execute(
        "update replication.skipped_code set name = %s where source_id = %s"
        " and kind = any (%s) and schema_name = %s and table_name = %s and name = %s",
        (new_name, source_id, list(kinds), *table, name),
    )


def rename_skipped_named(
    connection: Connection,
    source_id: int,
    kinds: Iterable[str],
    schema: str,
    name: str,
    *,
    new_name: str,
) -> None:
    """Give what has a name of its own in its schema another one."""
    connection.execute(
        "update replication.skipped_code set name = %s"
        " where source_id = %s and kind = any (%s) and schema_name = %s and name = %s",
        (new_name, source_id, list(kinds), schema, name),
    )


def move_skipped(
    connection: Connection, source_id: int, kinds: Iterable[str], was: _Name, now: _Name
) -> None:
    """Give a domain, type or view, with all that was skipped of it, another name or schema."""
    connection.execute(
        "update replication.skipped_code set schema_name = %s, table_name = %s"
        " where source_id = %s and kind = any (%s) and schema_name = %s and table_name = %s",
        (*now, source_id, list(kinds), *was),
    )


def move_skipped_schema(connection: Connection, source_id: int, was: str, now: str) -> None:
    """Give what was skipped in a schema the schema's new name."""
    connection.execute(
        "update replication.skipped_code set schema_name = %s"
        " where source_id = %s and schema_name = %s",
        (now, source_id, was),
    )
