"""Statements that read a slot and move it, composed; any session of the source can run them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from psycopg.sql import SQL, Composed, Literal

from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.backlog import Chunk

__all__ = ["advance", "limit_temporary_files", "peek", "try_options"]

_PEEK = SQL("select lsn, data from pg_logical_slot_peek_binary_changes({}, {}, {}, {})")
_KIB = 1024


def peek(slot: str, chunk: Chunk, options: Mapping[str, str]) -> Composed:
    """Return what reads a chunk: rows of a message and its position, in COPY's binary format."""
    return SQL("copy ({}) to stdout (format binary)").format(
        _peek(slot, chunk.upto, chunk.max_rows, options)
    )


def try_options(slot: str, options: Mapping[str, str]) -> Composed:
    """Return what lets the output plugin look at its options, and reads a single record of WAL."""
    return SQL("select count(*) from ({}) none").format(_peek(slot, Lsn(1), 1, options))


def advance(slot: str, upto: Lsn) -> Composed:
    """Return what lets the source forget all that lies before a position."""
    return SQL("select pg_replication_slot_advance({}, {})").format(Literal(slot), Literal(upto))


def limit_temporary_files(byte_count: int) -> Composed:
    """Return what limits the temporary files of the session, where its role may."""
    return SQL(
        "select set_config(name, {limit}::text, false) from pg_settings"
        " where name = 'temp_file_limit' and has_parameter_privilege(name, 'set')"
        " and setting::integer not between 0 and {limit}"
    ).format(limit=Literal(byte_count // _KIB))


def _peek(slot: str, upto: Lsn, max_rows: int, options: Mapping[str, str]) -> Composed:
    listed = SQL(", ").join(map(Literal, chain.from_iterable(options.items())))
    return _PEEK.format(Literal(slot), Literal(upto), Literal(max_rows), listed)
