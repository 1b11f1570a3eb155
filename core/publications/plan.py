"""The statements that make the publications of a source as they should be. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from psycopg import sql
from psycopg.sql import SQL, Composed, Identifier

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import TableSelection
from pgrepl.decoding.pgoutput.stream import publication_names
from pgrepl.publications.tables import Publications, PublishedTable

__all__ = ["drop_statements", "publish_statements", "unpublished"]

#: The first version that can publish generated columns.
_GENERATED_VERSION = 18_00_00
_ACTIONS = ("insert, update, delete, truncate", "insert, truncate")


def publish_statements(
    source: SourceConfig, found: Publications, server_version: int
) -> Sequence[Composed]:
    """Return what is missing: publications, and tables in the right one of them.

    Tables leave before others come: nobody's UPDATE fails in between, since all of it is meant for
    one transaction.
    """
    whole, inserts = publication_names(source.slot)
    statements = [
        _create(name, actions, server_version)
        for name, actions in zip((whole, inserts), _ACTIONS, strict=True)
        if name not in found.names
    ]
    wanted = [table for table in found.tables if table.is_wanted(source.selection)]
    with_identity = [table for table in wanted if table.has_identity]
    without = [table for table in wanted if not table.has_identity]
    return [
        *statements,
        *_change("DROP", whole, [table for table in without if table.is_in_all]),
        *_change("DROP", inserts, [table for table in with_identity if table.is_in_inserts]),
        *_change("ADD", whole, [table for table in with_identity if not table.is_in_all]),
        *_change("ADD", inserts, [table for table in without if not table.is_in_inserts]),
    ]


def drop_statements(source: SourceConfig) -> Sequence[Composed]:
    """Return what removes the publications."""
    return [
        SQL("DROP PUBLICATION IF EXISTS {}").format(Identifier(name))
        for name in publication_names(source.slot)
    ]


def unpublished(found: Publications, selection: TableSelection) -> Sequence[PublishedTable]:
    """Return tables of the selection whose changes are not sent."""
    return [
        table
        for table in found.tables
        if table.is_wanted(selection) and not (table.is_in_all or table.is_in_inserts)
    ]


def _create(name: str, actions: str, server_version: int) -> Composed:
    options = SQL("publish = {}").format(sql.Literal(actions))
    if server_version >= _GENERATED_VERSION:
        options += SQL(", publish_generated_columns = stored")
    return SQL("CREATE PUBLICATION {} WITH ({})").format(Identifier(name), options)


def _change(
    action: Literal["ADD", "DROP"], name: str, tables: Sequence[PublishedTable]
) -> Sequence[Composed]:
    if not tables:
        return []
    listed = SQL(", ").join(SQL("ONLY {}").format(table.identifier) for table in tables)
    statement = SQL("ALTER PUBLICATION {} {} TABLE {}")
    return [statement.format(Identifier(name), SQL(action), listed)]
