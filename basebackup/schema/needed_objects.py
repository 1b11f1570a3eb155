"""What relations need of the source, however far away, and what is not copied of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.basebackup.schema.statements.subject import Subject
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.skipped_code import SkippedCode

__all__ = ["LeftOut", "NeededObject", "read_needed", "read_spare", "skipped_as_left_out"]


@dataclass(frozen=True, slots=True)
class NeededObject:
    """A row of ``sql/needed_objects.sql`` or ``sql/spare_objects.sql``."""

    catalog: str
    oid: int
    schema: str
    name: str
    #: Names of a function's or an operator's argument types, without schemas.
    arguments: Sequence[str]
    relation_kind: str | None
    is_evaluated: bool
    #: The extension that it belongs to, if any.
    extension: str | None
    #: Whether the tables or views cannot be made without it.
    is_required: bool = True

    @property
    def subject(self) -> Subject:
        """What the statements of a dump know it by."""
        return Subject(self.catalog, self.schema, self.name, tuple(self.arguments))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something of the source that is not copied, and why."""

    kind: str
    name: str
    reason: str


def skipped_as_left_out(item: SkippedCode) -> LeftOut:
    """Return something that calls code of the source as a report names it."""
    return LeftOut(item.kind, item.shown, item.reason)


def read_needed(
    connection: Connection, oids: Sequence[int], *, with_code: bool
) -> Sequence[NeededObject]:
    """Read what these tables or views need, they themselves included; functions only if asked."""
    with connection.cursor(row_factory=class_row(NeededObject)) as cursor:
        query = load_query("pgrepl.basebackup", "needed_objects")
        return cursor.execute(query, {"tables": oids, "with_code": with_code}).fetchall()


def read_spare(connection: Connection, schemas: Collection[str]) -> Sequence[NeededObject]:
    """Read the types, collations and sequences in these schemas that DDL may use one day."""
    with connection.cursor(row_factory=class_row(NeededObject)) as cursor:
        query = load_query("pgrepl.basebackup", "spare_objects")
        return cursor.execute(query, {"schemas": list(schemas)}).fetchall()
