"""Updates that become inserts or deletes, for rows that come into a filter or leave it."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.decoding.changes import unreadable
from pgrepl.decoding.pgoutput.grammar import (
    DELETE,
    KEY,
    OID,
    TUPLE_AT,
    UNCHANGED,
    WHICH_AT,
    Tuple,
    old_tuple_at,
    read_tuple,
)
from pgrepl.decoding.pgoutput.writing import insert
from pgrepl.decoding.stream import ChangedRow

__all__ = ["read_row", "to_delete", "to_insert"]

_DELETE = b"D"


def read_row(change: bytes, columns: Sequence[str], identity: Sequence[str]) -> ChangedRow:
    """Return what a change carries of its row, old and new."""
    old, new = _tuples(change)
    for row in (old, new):
        if row is not None and len(row) != len(columns):
            raise unreadable("a row is not as its table was described")
    is_update = change[:1] == b"U"
    fresh = None
    if new is not None:
        fresh = {n: v for n, v in zip(columns, new, strict=True) if v is not UNCHANGED}
    known = None
    if old is not None:
        # Others stand there as nulls, unless it is the whole row.
        known = {
            n: v for n, v in zip(columns, old, strict=True) if n in identity and v is not UNCHANGED
        }
    elif is_update and fresh is not None:
        # It is sent only where it differs.
        known = {n: v for n, v in fresh.items() if n in identity}
    return ChangedRow(known, fresh)


def to_delete(change: bytes) -> bytes:
    """Return an update that carries its old row as a delete of that."""
    if old_tuple_at(change) is None:
        raise unreadable("an update does not carry its old row")
    end = read_tuple(change, TUPLE_AT)[1]
    return _DELETE + change[OID.start : end]


def to_insert(change: bytes) -> bytes | None:
    """Return an update as an insert; None: a value of it is not known."""
    old, new = _tuples(change)
    if new is None:
        raise unreadable("an update does not carry its new row")
    is_whole = old is not None and change[WHICH_AT] != KEY
    row = [
        old[place] if value is UNCHANGED and old is not None and is_whole else value
        for place, value in enumerate(new)
    ]
    if any(value is UNCHANGED for value in row):
        return None
    return insert(int.from_bytes(change[OID]), row)


def _tuples(change: bytes) -> tuple[Tuple | None, Tuple | None]:
    """Return the old and the new tuple of a change."""
    if old_tuple_at(change) is None:
        return None, read_tuple(change, TUPLE_AT)[0]
    old, at = read_tuple(change, TUPLE_AT)
    if change[0] == DELETE:
        return old, None
    return old, read_tuple(change, at + 1)[0]
