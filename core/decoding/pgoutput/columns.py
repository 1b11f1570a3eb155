r"""Changes that are all alike are read at once, column by column.

A text has no zero byte, so that ``t\0\0\0`` is how a column of less than 256 bytes begins, and
nothing else is. All changes of a table in a payload are cut there together: where that gives the
same number of pieces for each, and the same columns are null, no change has to be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgrepl.decoding.changes import NULL
from pgrepl.decoding.pgoutput.grammar import INSERT, TUPLE_AT, UPDATE, WHICH_AT

__all__ = ["HEAD_BYTES", "NULL_KIND", "SHORT", "escape", "read_columns"]

#: How a column of less than 256 bytes begins.
SHORT = b"t\0\0\0"
NULL_KIND = b"n"
#: What stands before the first column of a change that has the new row alone.
HEAD_BYTES = TUPLE_AT + 2

#: What COPY's text format escapes.
_SPECIAL = re.compile(rb"[\\\n\t\r]")


def read_columns(messages: Sequence[bytes], size: int) -> list[Sequence[bytes]] | None:
    """Return the columns of changes as COPY takes them; None unless all of them are alike.

    They are inserts, or updates that leave the key alone, of short texts and nulls.
    """
    first = messages[0]
    head, *pieces = first.split(SHORT)
    # The oid might be cut too; a table whose columns are all null has no piece.
    is_new_row = head[WHICH_AT:HEAD_BYTES] == b"N" + size.to_bytes(2)
    if not is_new_row or first[0] not in (INSERT, UPDATE):
        return None
    ends = [piece[piece[0] + 1 :] for piece in pieces if piece]
    nulls = [head[HEAD_BYTES:], *ends]
    if len(ends) != len(pieces) or not pieces or any(end.strip(NULL_KIND) for end in nulls):
        return None
    if len(pieces) + sum(map(len, nulls)) != size:
        return None
    start = head + SHORT
    if {message[: len(start)] for message in messages} != {start}:
        return None
    columns: list[Sequence[bytes]] = [[NULL] * len(messages)] * len(nulls[0])
    cut = _cut_all(messages, head, ends)
    if cut is None:
        return None
    for values, end in zip(cut, ends, strict=True):
        columns.append(values)
        columns += [[NULL] * len(messages)] * len(end)
    return columns


def _cut_all(
    messages: Sequence[bytes], head: bytes, ends: Sequence[bytes]
) -> list[Sequence[bytes]] | None:
    """Return the columns that are not null, each of which ends with nulls as in the first one."""
    count = len(ends)
    pieces = b"".join(messages).split(SHORT)
    if len(pieces) != len(messages) * count + 1:
        return None
    # After the last column of a change comes the next change.
    pieces.append(pieces.pop() + head)
    columns: list[Sequence[bytes]] = []
    for number, end in enumerate(ends, 1):
        own = pieces[number::count]
        rest = end + head if number == count else end
        extra = len(rest) + 1
        if False in [
            len(piece) >= extra and piece[0] + extra == len(piece) and piece.endswith(rest)
            for piece in own
        ]:
            return None
        values = [piece[1 : -len(rest)] for piece in own] if rest else [piece[1:] for piece in own]
        if _SPECIAL.search(b"".join(values)):
            values = list(map(escape, values))
        columns.append(values)
    return columns


def escape(text: bytes) -> bytes:
    """Return a text as COPY takes it."""
    if b"\\" in text:
        text = text.replace(b"\\", b"\\\\")
    if b"\n" in text:
        text = text.replace(b"\n", b"\\n")
    if b"\t" in text:
        text = text.replace(b"\t", b"\\t")
    return text.replace(b"\r", b"\\r") if b"\r" in text else text
