"""Statements that read a slot and move it, composed; any session of the source can run them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from psycopg.sql import SQL, Composed, Identifier, Literal

from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.slot.backlog import Chunk

__all__ = [
    "advance",
    "copy_slot",
    "drop_slot",
    "limit_temporary_files",
    "look",
    "read",
    "try_options",
]

_CHANGES = SQL("select lsn, data from {}({}, {}, {}, {})")
_GET = Identifier("pg_logical_slot_get_binary_changes")
_PEEK = Identifier("pg_logical_slot_peek_binary_changes")
_KIB = 1024


def copy_slot(slot: str, name: str) -> Composed:
    """Return what copies a slot, and tells where the copy stands; it ends with the session."""
    return SQL(
        "select lsn from pg_copy_logical_replication_slot({}, {}, temporary => true)"
    ).format(Literal(slot), Literal(name))


def drop_slot(slot: str) -> Composed:
    """Return what removes a slot."""
    return SQL("select pg_drop_replication_slot({})").format(Literal(slot))


def look(slot: str) -> Composed:
    """Return what tells where the source's WAL ends, and from where a slot is decoded."""
    return SQL(
        "select pg_current_wal_flush_lsn(), restart_lsn from pg_replication_slots"
        " where slot_name = {}"
    ).format(Literal(slot))


def read(slot: str, chunk: Chunk, options: Mapping[str, str]) -> Composed:
    """Return what reads a chunk, and moves the slot past it.

    The rows are a message and its position each, in COPY's binary format.
    """
    return SQL("copy ({}) to stdout (format binary)").format(
        _changes(_GET, slot, chunk.upto, chunk.max_rows, options)
    )


def try_options(slot: str, options: Mapping[str, str]) -> Composed:
    """Return what lets the output plugin look at its options, and reads a single record of WAL."""
    return SQL("select count(*) from ({}) none").format(_changes(_PEEK, slot, Lsn(1), 1, options))


def advance(slot: str, upto: Lsn) -> Composed:
    """Return what lets the source forget all that lies before a position.

    A slot beyond it would be an error, and those end the copies of the session.
    """
    return SQL(
        "select pg_replication_slot_advance(slot_name, {upto}) from pg_replication_slots"
        " where slot_name = {slot} and confirmed_flush_lsn < {upto}"
    ).format(slot=Literal(slot), upto=Literal(upto))


def limit_temporary_files(byte_count: int) -> Composed:
    """Return what limits the temporary files of the session, where its role may."""
    return SQL(
        "select set_config(name, {limit}::text, false) from pg_settings"
        " where name = 'temp_file_limit' and has_parameter_privilege(name, 'set')"
        " and setting::integer not between 0 and {limit}"
    ).format(limit=Literal(byte_count // _KIB))


def _changes(
    function: Identifier, slot: str, upto: Lsn, max_rows: int, options: Mapping[str, str]
) -> Composed:
    listed = SQL(", ").join(map(Literal, chain.from_iterable(options.items())))
    return _CHANGES.format(function, Literal(slot), Literal(upto), Literal(max_rows), listed)
