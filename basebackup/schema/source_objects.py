"""What the replicated tables need of the source, and where it will be on the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg.rows import class_row

from pgrepl.basebackup.schema.needed_objects import LeftOut, NeededObject, read_needed, read_spare
from pgrepl.basebackup.schema.views import Views, read_views
from pgrepl.catalog.tables import SourceTable, read_tables
from pgrepl.config.naming import TableSelection
from pgrepl.config.rules import Rules
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = ["Member", "SourceObjects", "read_objects"]


@dataclass(frozen=True, slots=True)
class Member:
    """A row of ``sql/extension_members.sql``."""

    extension: str
    schema: str
    name: str
    is_movable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceObjects:
    """The part of the source's catalogue that a copy deals with."""

    #: The tables to copy, partitioned ones included.
    tables: Sequence[SourceTable]
    #: Other tables, which pg_dump must leave alone.
    other_tables: Sequence[SourceTable]
    #: What the tables need, and in their schemas what they may need one day; the views have needs
    #: of their own.
    needed: Sequence[NeededObject]
    views: Views
    members: Sequence[Member]
    unseen: Sequence[LeftOut]

    @property
    def schemas(self) -> frozenset[str]:
        """The schemas of everything that is needed and belongs to no extension."""
        items = (*self.needed, *self.views.needed)
        return frozenset(item.schema for item in items if item.extension is None)

    @property
    def cut_off(self) -> Sequence[str]:
        """What the tables cannot be without though it is not among them, by name."""
        tables = {table.key for table in self.tables}
        return sorted(
            f"{item.schema}.{item.name}"
            for item in self.needed
            if item.catalog == "pg_class"
            and item.is_required
            and item.extension is None
            and item.relation_kind in ("r", "p", "f", "v", "m")
            and (item.schema, item.name) not in tables
        )

    @property
    def extensions(self) -> frozenset[str]:
        """The extensions that the target must have."""
        items = (*self.needed, *self.views.needed)
        return frozenset(i.extension for i in items if i.extension is not None and i.is_required)

    def member_schemas(self, target: Mapping[str, str]) -> dict[tuple[str, str], str]:
        """Return where each member is on the target, given the schemas of its extensions there."""
        return {
            (member.schema, member.name): target.get(member.extension, member.schema)
            if member.is_movable
            else member.schema
            for member in self.members
        }


def read_objects(
    connection: Connection,
    *selections: TableSelection,
    rules: Rules,
    with_views: bool,
    with_code: bool,
) -> SourceObjects:
    """Read the tables, and if asked the views, that every selection takes in; and their needs.

    Functions and operators are among the needs only if asked for.
    """
    tables: list[SourceTable] = []
    others: list[SourceTable] = []
    for table in read_tables(connection, rules):
        is_chosen = _is_chosen(table.root_schema, table.root_name, selections)
        (tables if is_chosen and not table.is_unlogged else others).append(table)
    unlogged = [
        LeftOut("unlogged table", str(table), "unlogged tables write no WAL")
        for table in others
        if table.is_unlogged and _is_chosen(table.root_schema, table.root_name, selections)
    ]
    needed = read_needed(connection, [table.oid for table in tables], with_code=with_code)
    known = {(item.catalog, item.oid) for item in needed}
    schemas = {item.schema for item in needed if item.extension is None}
    spare = [i for i in read_spare(connection, schemas) if (i.catalog, i.oid) not in known]
    views = read_views(connection, tables, *selections, is_wanted=with_views, with_code=with_code)
    with connection.cursor(row_factory=class_row(Member)) as cursor:
        members = cursor.execute(_query("extension_members")).fetchall()
    unseen = [
        LeftOut(kind, name, reason or "belongs to the database, not to a table")
        for kind, name, reason, schema, root in connection.execute(_query("unseen_objects"))
        if schema is None or _is_chosen(schema, root, selections)
    ]
    return SourceObjects(
        tables=tables,
        other_tables=others,
        needed=[*needed, *spare],
        views=views,
        members=members,
        unseen=[*unlogged, *views.left_out, *unseen],
    )


def _is_chosen(root_schema: str, root_name: str, selections: Iterable[TableSelection]) -> bool:
    # A partition comes with its root.
    return all(selection.matches(root_schema, root_name) for selection in selections)


def _query(name: str) -> LiteralString:
    return load_query("pgrepl.basebackup", name)
