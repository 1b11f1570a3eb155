r"""wal2json's lines, read as the bytes they are.

Inside a JSON text every quote follows a backslash, so that ``{"name":`` and ``"identity":[`` stand
nowhere but where wal2json put them: cutting lines by such marks is exact. It is also what makes
replay fast: only the last line of a row is ever parsed.

A value is handled as PostgreSQL's COPY wants it. JSON's escapes are COPY's escapes but for
``\uXXXX``, so that nearly every text goes into COPY as it came.
"""

from __future__ import annotations

import json
import re

from pgrepl.errors import SpoolError

__all__ = [
    "BEGIN_PREFIX",
    "COLUMNS",
    "DELETE",
    "ENTRY_MARK",
    "IDENTITY",
    "INSERT",
    "NULL",
    "TRUNCATE",
    "UNICODE_ESCAPE",
    "UPDATE",
    "action_of",
    "copy_value",
    "mark_nulls",
    "names_of",
    "read_begin",
    "read_entries",
    "read_value",
    "table_key",
    "unmark_nulls",
    "unreadable",
]

#: Actions, as they stand in a line.
INSERT, UPDATE, DELETE, TRUNCATE = b"I", b"U", b"D", b"T"
_ACTION_AT = len(b'{"action":"')

BEGIN_PREFIX = b'{"action":"B"'
COLUMNS = b'"columns":['
IDENTITY = b'"identity":['
#: Begins each column, in both lists.
ENTRY_MARK = b'{"name":'

#: NULL in COPY's text format.
NULL = rb"\N"
_JSON_NULL = b',"value":null}'
_MARKED_NULL = rb',"value":\N}'

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_ENTRY = re.compile(
    rb'\{"name":(' + _STRING + rb'),"value":(' + _STRING + rb'|[^"{}\[\],]+)\}', re.DOTALL
)
_NAMES = re.compile(rb',"schema":(' + _STRING + rb'),"table":(' + _STRING + rb")", re.DOTALL)
_BEGIN = re.compile(
    rb'\{"action":"B","xid":(\d+),"timestamp":"([^"]+)",(?:"origin":\d+,)?'
    rb'"lsn":"([0-9A-F]+)/([0-9A-F]+)","nextlsn":"([0-9A-F]+)/([0-9A-F]+)"\}'
)
_SCHEMA = b',"schema":"'
# Before the schema stand the action, xid, time and LSN: never less than this.
_SCHEMA_FROM = 40
UNICODE_ESCAPE = b"\\u"
_COPY_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"})


def action_of(line: bytes) -> bytes:
    """Return what a change does."""
    return line[_ACTION_AT : _ACTION_AT + 1]


def table_key(line: bytes) -> bytes:
    """Cut out schema and table as they stand there, with what follows them.

    The lines of one table have one of two keys: by the field that follows, columns or identity.
    """
    start = line.find(_SCHEMA, _SCHEMA_FROM)
    return line[start : line.find(b'":[', start)]


def names_of(line: bytes) -> tuple[str, str]:
    """Return schema and table of a change."""
    match = _NAMES.match(line, line.find(_SCHEMA, _SCHEMA_FROM))
    if match is None:
        raise unreadable("a change names no table")
    return _text(match[1]), _text(match[2])


def read_begin(line: bytes) -> tuple[int, str, int, int]:
    """Return xid, time, commit LSN and end of a transaction."""
    match = _BEGIN.fullmatch(line)
    if match is None:
        raise unreadable("a transaction's begin cannot be read")
    xid, at, high, low, end_high, end_low = match.groups()
    commit_lsn = int(high, 16) << 32 | int(low, 16)
    return int(xid), at.decode(), commit_lsn, int(end_high, 16) << 32 | int(end_low, 16)


def read_entries(line: bytes, start: int) -> tuple[list[str], list[bytes]]:
    """Read the list of columns that begins at ``start``, behind its bracket.

    Returns
    -------
    names, and values as they stand there, texts in their quotes

    """
    names: list[str] = []
    values: list[bytes] = []
    at = start
    while (match := _ENTRY.match(line, at)) is not None:
        names.append(_text(match[1]))
        values.append(match[2])
        at = match.end()
        if line[at : at + 1] != b",":
            break
        at += 1
    if line[at : at + 1] != b"]":
        raise unreadable("the columns of a change cannot be read")
    return names, values


def mark_nulls(text: bytes) -> bytes:
    """Return lines with their nulls as COPY's."""
    return text.replace(_JSON_NULL, _MARKED_NULL)


def unmark_nulls(text: bytes) -> bytes:
    """Return lines with their nulls as wal2json printed them."""
    return text.replace(_MARKED_NULL, _JSON_NULL)


def copy_value(value: bytes) -> bytes:
    """Return a value as COPY takes it: JSON's escapes for control characters are not COPY's."""
    if UNICODE_ESCAPE not in value:
        return value
    return _text(b'"' + value + b'"').translate(_COPY_ESCAPES).encode()


def read_value(value: bytes) -> str | None:
    """Return what a value says: a text in quotes, a bare number, or null."""
    if value == b"null":
        return None
    return _text(value) if value.startswith(b'"') else value.decode()


def _text(literal: bytes) -> str:
    try:
        text = json.loads(literal)
    except ValueError as exc:
        raise unreadable("a text in a change cannot be read") from exc
    return str(text)


def unreadable(what: str) -> SpoolError:
    """Return the error for a line that is not wal2json's."""
    return SpoolError(
        f"the spool is damaged: {what}",
        hint="Nothing of it was applied. Did somebody write into replication.raw_messages?",
    )
