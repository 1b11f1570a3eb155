"""Updates that become inserts or deletes, for rows that come into a filter or leave it."""

from __future__ import annotations

import json
from collections.abc import Collection

from pgrepl.decoding.changes import unreadable
from pgrepl.decoding.stream import ChangedRow
from pgrepl.decoding.wal2json.grammar import (
    ACTION_AT,
    COLUMNS,
    ENTRY_MARK,
    IDENTITY,
    literal,
    read_entries,
)

__all__ = ["read_row", "to_delete", "to_insert"]

_END = b"]}"


def read_row(line: bytes, codec: str) -> ChangedRow:
    """Return what a change carries of its row, old and new."""
    new, old = (_read(line, mark, codec) for mark in (COLUMNS, IDENTITY))
    return ChangedRow(
        None if old is None else {name: _text(value) for name, value in old.items()},
        None if new is None else {name: _text(value) for name, value in new.items()},
    )


def to_delete(line: bytes) -> bytes:
    """Return an update as a delete of its old row."""
    return b"".join(
        (
            line[:ACTION_AT],
            b"D",
            line[ACTION_AT + 1 : _at(line, COLUMNS)],
            line[_at(line, IDENTITY) :],
        )
    )


def to_insert(line: bytes, columns: Collection[str], codec: str) -> bytes | None:
    """Return an update as an insert; None: it does not carry all columns."""
    new, old = (_read(line, mark, codec) for mark in (COLUMNS, IDENTITY))
    values = {**(old or {}), **(new or {})}
    if not values.keys() >= set(columns):
        return None
    listed = b",".join(
        b"".join((ENTRY_MARK, literal(name, codec), b',"value":', value, b"}"))
        for name, value in values.items()
    )
    start = _at(line, COLUMNS)
    return b"".join((line[:ACTION_AT], b"I", line[ACTION_AT + 1 : start], COLUMNS, listed, _END))


def _at(line: bytes, mark: bytes) -> int:
    at = line.find(mark)
    if at < 0:
        raise unreadable("an update does not carry its rows")
    return at


def _read(line: bytes, mark: bytes, codec: str) -> dict[str, bytes] | None:
    at = line.find(mark)
    if at < 0:
        return None
    names, values = read_entries(line, at + len(mark), codec)
    return dict(zip(names, values, strict=True))


def _text(value: bytes) -> bytes | None:
    """Return a value as PostgreSQL printed it; None is a null."""
    if value == b"null":
        return None
    if not value.startswith(b'"'):
        return value
    # Escapes are of ASCII alone, and this codec keeps every other byte.
    return str(json.loads(value.decode("latin-1"))).encode("latin-1")
