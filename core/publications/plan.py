"""The statements that make the publications of a source as they should be. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from psycopg import sql
from psycopg.sql import SQL, Composed, Identifier

from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import TablePattern, TableSelection
from pgrepl.decoding.pgoutput.stream import publication_names
from pgrepl.postgres.encodings import kept_codec
from pgrepl.postgres.queries import load_query
from pgrepl.publications.tables import Publications, PublishedTable
from pgrepl.store.spool.spool_format import DDL_TABLE

__all__ = ["drop_statements", "guard_statements", "publish_statements"]

#: The first version that can publish generated columns.
_GENERATED_VERSION = 18_00_00
_ACTIONS = ("insert, update, delete, truncate", "insert, truncate")


def publish_statements(
    source: SourceConfig, found: Publications, server_version: int, *, is_superuser: bool
) -> Sequence[Composed]:
    """Return what is missing: publications, and tables in the right one of them.

    All of it is meant for one transaction. A superuser publishes the inserts of all tables: then
    those of a table that a CREATE TABLE AS fills are sent too.
    """
    whole, inserts = publication_names(source.slot)
    state = found.state
    statements: list[Composed] = []
    takes_all = state.takes_all_inserts if inserts in state.names else is_superuser
    if whole not in state.names:
        statements.append(_create(whole, _ACTIONS[0], server_version, takes_all=False))
    if inserts not in state.names:
        statements.append(_create(inserts, _ACTIONS[1], server_version, takes_all=takes_all))
    for name, actions in zip((whole, inserts), _ACTIONS, strict=True):
        if name in state.changed_names:
            statement = SQL(
                "ALTER PUBLICATION {} SET (publish = {}, publish_via_partition_root = false)"
            )
            statements.append(statement.format(Identifier(name), sql.Literal(actions)))
    comment = _comment(source.selection, state.encoding)
    if state.comment != comment:
        statement = SQL("COMMENT ON PUBLICATION {} IS {}")
        statements.append(statement.format(Identifier(whole), sql.Literal(comment)))
    wanted = [table for table in found.tables if table.is_wanted(source.selection)]
    if state.changed_names and is_superuser:
        # Since when, nobody knows: the receiver has them copied again.
        note = SQL("SELECT pgrepl.note_joined({}::regclass, false)")
        statements += [
            note.format(sql.Literal(table.identifier.as_string()))
            for table in wanted
            if table.key != DDL_TABLE
        ]
    with_identity = [table for table in wanted if _is_sent_whole(table)]
    without = [table for table in wanted if not _is_sent_whole(table)]
    statements += [
        *_change("DROP", whole, [table for table in without if table.is_in_all]),
        *_change("DROP", whole, [table for table in wanted if table.is_limited]),
        *_change("ADD", whole, [table for table in with_identity if not table.is_in_all]),
    ]
    if takes_all:
        return statements
    return [
        *statements,
        *_change("DROP", inserts, [table for table in with_identity if table.is_in_inserts]),
        *_change("ADD", inserts, [table for table in without if not table.is_in_inserts]),
    ]


def guard_statements() -> Sequence[SQL]:
    """Return what a superuser runs to keep the publications right, in one transaction."""
    return [
        SQL("create schema if not exists pgrepl"),
        SQL(load_query("pgrepl.publications", "guard")),
    ]


def drop_statements(slot: str, *, is_superuser: bool) -> Sequence[Composed | SQL]:
    """Return what removes the publications, and what keeps them where they were the last."""
    dropped = [
        SQL("DROP PUBLICATION IF EXISTS {}").format(Identifier(name))
        for name in publication_names(slot)
    ]
    guard = [SQL(load_query("pgrepl.publications", "drop_guard"))] if is_superuser else []
    return [*dropped, *guard]


def _is_sent_whole(table: PublishedTable) -> bool:
    # Of the log of DDL inserts are enough: then nothing is left to do when it comes.
    return table.has_identity and (table.is_in_all or table.key != DDL_TABLE)


def _create(name: str, actions: str, server_version: int, *, takes_all: bool) -> Composed:
    options = SQL("publish = {}").format(sql.Literal(actions))
    if server_version >= _GENERATED_VERSION:
        options += SQL(", publish_generated_columns = stored")
    return SQL("CREATE PUBLICATION {}{} WITH ({})").format(
        Identifier(name), SQL(" FOR ALL TABLES" if takes_all else ""), options
    )


def _comment(selection: TableSelection, encoding: str) -> str:
    """Return the selection as the event triggers read it.

    A pattern with characters that the database cannot have is no table's. The others stand for
    themselves: the server understands numbers of characters not in every encoding.
    """
    return json.dumps(
        {
            "pgrepl": "the tables whose changes are replicated",
            "include": _regexes(selection.include, encoding),
            "exclude": _regexes(selection.exclude, encoding),
        },
        ensure_ascii=False,
    )


def _regexes(patterns: Sequence[TablePattern], encoding: str) -> Sequence[tuple[str, str]]:
    found = []
    for pattern in patterns:
        with suppress(UnicodeEncodeError):
            "".join(pattern.regexes).encode(kept_codec(encoding))
            found.append(pattern.regexes)
    return found


def _change(
    action: Literal["ADD", "DROP"], name: str, tables: Sequence[PublishedTable]
) -> Sequence[Composed]:
    if not tables:
        return []
    listed = SQL(", ").join(SQL("ONLY {}").format(table.identifier) for table in tables)
    statement = SQL("ALTER PUBLICATION {} {} TABLE {}")
    return [statement.format(Identifier(name), SQL(action), listed)]
