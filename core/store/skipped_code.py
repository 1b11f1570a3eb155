"""The rows of ``replication.skipped_code``: what rests on code of a source and was not made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.config.naming import shown_name
from pgrepl.postgres.connect import Connection

__all__ = ["SkippedCode", "forget_skipped", "read_skipped", "record_skipped"]


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
                    item.name,
                    item.definition,
                    item.reason,
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
