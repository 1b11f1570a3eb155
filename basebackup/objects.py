"""What the replicated tables need of the source, and where it will be on the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg.rows import class_row

from pgrepl.catalogue import SourceTable, read_tables
from pgrepl.naming import TableSelection
from pgrepl.postgres import Connection
from pgrepl.queries import load_query

__all__ = ["LeftOut", "Member", "NeededObject", "SourceObjects", "read_objects"]


@dataclass(frozen=True, slots=True)
class NeededObject:
    """A row of ``sql/needed_objects.sql``."""

    catalog: str
    oid: int
    schema: str
    name: str
    #: Names of a function's argument types, without schemas.
    arguments: Sequence[str]
    relation_kind: str | None
    is_evaluated: bool
    #: The extension that it belongs to, if any.
    extension: str | None


@dataclass(frozen=True, slots=True)
class Member:
    """A row of ``sql/extension_members.sql``."""

    extension: str
    schema: str
    name: str
    is_movable: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something of the source that is not copied, and why."""

    kind: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceObjects:
    """The part of the source's catalogue that a copy deals with."""

    #: The tables to copy, partitioned ones included.
    tables: Sequence[SourceTable]
    #: Other tables, which pg_dump must leave alone.
    other_tables: Sequence[SourceTable]
    needed: Sequence[NeededObject]
    members: Sequence[Member]
    unseen: Sequence[LeftOut]

    @property
    def schemas(self) -> frozenset[str]:
        """The schemas of everything that is needed and belongs to no extension."""
        return frozenset(item.schema for item in self.needed if item.extension is None)

    @property
    def extensions(self) -> frozenset[str]:
        """The extensions that the target must have."""
        return frozenset(item.extension for item in self.needed if item.extension is not None)

    def member_schemas(self, target: Mapping[str, str]) -> dict[tuple[str, str], str]:
        """Return where each member is on the target, given the schemas of its extensions there."""
        return {
            (member.schema, member.name): target.get(member.extension, member.schema)
            if member.is_movable
            else member.schema
            for member in self.members
        }


def read_objects(connection: Connection, *selections: TableSelection) -> SourceObjects:
    """Read the tables that every selection takes in, and what they need."""
    tables: list[SourceTable] = []
    others: list[SourceTable] = []
    for table in read_tables(connection):
        # A partition comes with its root.
        is_chosen = all(
            selection.matches(table.root_schema, table.root_name) for selection in selections
        )
        (tables if is_chosen and not table.is_unlogged else others).append(table)
    unlogged = [
        LeftOut("unlogged table", str(table), "unlogged tables write no WAL")
        for table in others
        if table.is_unlogged and all(s.matches(*table.key) for s in selections)
    ]
    with connection.cursor(row_factory=class_row(NeededObject)) as cursor:
        oids = [table.oid for table in tables]
        needed = cursor.execute(_query("needed_objects"), {"tables": oids}).fetchall()
    with connection.cursor(row_factory=class_row(Member)) as cursor:
        members = cursor.execute(_query("extension_members")).fetchall()
    unseen = [
        LeftOut(kind, name, "belongs to the database, not to a table")
        for kind, name in connection.execute(_query("unseen_objects")).fetchall()
    ]
    return SourceObjects(
        tables=tables,
        other_tables=others,
        needed=needed,
        members=members,
        unseen=[*unlogged, *unseen],
    )


def _query(name: str) -> LiteralString:
    return load_query("pgrepl.basebackup", name)
