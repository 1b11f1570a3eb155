r"""wal2json's lines, format 2, read as the bytes they are.

Parsing each line would cost more than everything else that receiver and replayer do, so the few
facts they need are cut out of the bytes. That is exact: inside a JSON text every quote follows a
backslash, so that ``","table":"``, ``{"name":`` and ``"identity":[`` stand nowhere but where
wal2json put them. Only where a name itself has a backslash, and so may have a quote, the names
are parsed each time.

Every encoding that a server can have keeps ASCII's bytes for ASCII's characters alone, so that all
this is true whatever the encoding of the source is; ``codec`` is Python's name of it.

A value is handled as PostgreSQL's COPY wants it. JSON's escapes are COPY's escapes but for
``\uXXXX``, so that nearly every text goes into COPY as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from pgrepl.decoding.changes import unreadable
from pgrepl.decoding.payload import Begin
from pgrepl.lsn import Lsn
from pgrepl.postgres.foreign_names import decode_name

__all__ = [
    "ACTION_AT",
    "BEGIN",
    "BEGIN_PREFIX",
    "COLUMNS",
    "ENTRY_MARK",
    "HEAD",
    "IDENTITY",
    "KEY_END",
    "LSN",
    "SCHEMA",
    "SCHEMA_FROM",
    "STRING",
    "TABLE",
    "UNICODE_ESCAPE",
    "action_of",
    "copy_value",
    "find_names",
    "literal",
    "map_values",
    "mark_nulls",
    "names_of",
    "read_begin",
    "read_entries",
    "read_lsn",
    "read_value",
    "table_key",
    "unmark_nulls",
]

#: How every line begins, and where its action stands then.
HEAD = b'{"action":"'
ACTION_AT = len(HEAD)
BEGIN_PREFIX = HEAD + b'B"'

#: A whole begin line: xid, time, and the two halves of the position and of the end.
BEGIN = re.compile(
    rb'\{"action":"B","xid":(\d++),"timestamp":"([^"]++)",(?:"origin":\d++,)?'
    rb'"lsn":"([0-9A-F]{1,8}+)/([0-9A-F]{1,8}+)",'
    rb'"nextlsn":"([0-9A-F]{1,8}+)/([0-9A-F]{1,8}+)"\}'
)

_XID_DIGITS = 10

SCHEMA = b',"schema":"'
TABLE = b'","table":"'
#: Before the schema stand the action, xid, time, maybe origin, and LSN: never less than this.
SCHEMA_FROM = 40
#: What the key of a change's table ends before, see ``table_key``.
KEY_END = b'":['

COLUMNS = b'"columns":['
IDENTITY = b'"identity":['
#: Begins each column, in both lists.
ENTRY_MARK = b'{"name":'

#: A pattern of a text with its quotes.
STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'

UNICODE_ESCAPE = b"\\u"

LSN = b',"lsn":"'
_JSON_NULL = b',"value":null}'
_MARKED_NULL = rb',"value":\N}'
_ENTRY = re.compile(
    rb'\{"name":(' + STRING + rb'),"value":(' + STRING + rb'|[^"{}\[\],]+)\}', re.DOTALL
)
_NAMES = re.compile(rb',"schema":(' + STRING + rb'),"table":(' + STRING + rb")", re.DOTALL)
_CONTROL = re.compile(rb"\\u(00[01][0-9A-Fa-f])")
_COPY_ESCAPES = {b"\n": rb"\n", b"\r": rb"\r", b"\t": rb"\t"}
#: Stands for an escaped backslash while other escapes are looked for: JSON has no raw one.
_BACKSLASH = b"\0"


def action_of(line: bytes) -> bytes:
    """Return what a change does."""
    return line[ACTION_AT : ACTION_AT + 1]


def table_key(line: bytes) -> bytes:
    """Cut out schema and table as they stand there, with the name of the field after them.

    The lines of one table have one of two keys: by the field that follows, columns or identity.
    """
    start = line.find(SCHEMA, SCHEMA_FROM)
    return line[start : line.find(KEY_END, start)]


def find_names(line: bytes) -> tuple[bytes, bytes] | None:
    """Return schema and table of a change as they stand there, in quotes; None: it has none."""
    match = _NAMES.match(line, line.find(SCHEMA, SCHEMA_FROM))
    return None if match is None else (match[1], match[2])


def names_of(line: bytes, codec: str) -> tuple[str, str]:
    """Return schema and table of a change."""
    found = find_names(line)
    if found is None:
        raise unreadable("a change names no table")
    return _name(found[0], codec), _name(found[1], codec)


def read_begin(line: bytes) -> Begin:
    """Return what a begin line says."""
    match = BEGIN.fullmatch(line)
    if match is None or not match[2].isascii() or len(match[1]) > _XID_DIGITS:
        raise unreadable("a transaction's begin cannot be read")
    xid, at, high, low, *_ = match.groups()
    return Begin(int(xid), at.decode(), int(high, 16) << 32 | int(low, 16))


def read_lsn(change: bytes) -> Lsn | None:
    """Read the position in a line, which stands before the table; None: it has none."""
    start = change.find(LSN)
    if start < 0 or start > change.find(SCHEMA):
        return None
    start += len(LSN)
    return Lsn.parse(change[start : change.index(b'"', start)].decode("ascii"))


def read_entries(line: bytes, start: int, codec: str) -> tuple[list[str], list[bytes]]:
    """Read the list of columns that begins at ``start``, after its bracket.

    Returns
    -------
    names, and values as they stand there, texts in their quotes

    """
    names: list[str] = []
    values: list[bytes] = []
    at = start
    while (match := _ENTRY.match(line, at)) is not None:
        names.append(_name(match[1], codec))
        values.append(match[2])
        at = match.end()
        if line[at : at + 1] != b",":
            break
        at += 1
    if line[at : at + 1] != b"]":
        raise unreadable("the columns of a change cannot be read")
    return names, values


def map_values(line: bytes, codec: str, change: Callable[[str, bytes], bytes | None]) -> bytes:
    """Return a line with the value of each column as it is changed, by name and value.

    None: the column is taken out of the line.
    """
    pieces: list[bytes] = []
    at = count = 0
    has_any = False
    for match in _ENTRY.finditer(line):
        count += 1
        before = line[at : match.start()]
        is_next = before == b","
        if not is_next:
            # The first one of a list.
            pieces.append(before)
            has_any = False
        at = match.end()
        value = change(_name(match[1], codec), match[2])
        if value is None:
            continue
        if has_any:
            pieces.append(b",")
        has_any = True
        pieces += (ENTRY_MARK, match[1], b',"value":', value, b"}")
    if count != line.count(ENTRY_MARK):
        # What is not recognized must not go on as it is.
        raise unreadable("the columns of a change cannot be read")
    return b"".join((*pieces, line[at:]))


def mark_nulls(text: bytes) -> bytes:
    """Return lines with their nulls as COPY's."""
    return text.replace(_JSON_NULL, _MARKED_NULL)


def unmark_nulls(text: bytes) -> bytes:
    """Return lines with their nulls as wal2json printed them."""
    return text.replace(_MARKED_NULL, _JSON_NULL)


def copy_value(value: bytes) -> bytes:
    """Return a value as COPY takes it: JSON's escapes for control characters are not COPY's.

    A value may have many megabytes, each byte of them escaped: nothing is done for each escape.
    """
    if UNICODE_ESCAPE not in value:
        return value
    if _BACKSLASH in value:
        raise unreadable("a text in a change cannot be read")
    found = value.replace(rb"\\", _BACKSLASH)
    # wal2json escapes control characters in this way, and nothing else.
    while (match := _CONTROL.search(found)) is not None:
        character = bytes([int(match[1], 16)])
        if character == _BACKSLASH:
            break
        found = found.replace(match[0], _COPY_ESCAPES.get(character, character))
    if UNICODE_ESCAPE in found:
        raise unreadable("a text in a change cannot be read")
    return found.replace(_BACKSLASH, rb"\\")


def read_value(value: bytes, codec: str, errors: str = "strict") -> str | None:
    """Return what a value says: a text in quotes, a bare number, or null.

    Raises
    ------
    UnicodeDecodeError
        when its bytes are not valid in the encoding; ``errors`` is as in ``bytes.decode``.

    """
    if value == b"null":
        return None
    text = value.decode(codec, errors)
    return _parsed(text) if value.startswith(b'"') else text


def literal(name: str, codec: str) -> bytes:
    """Print a name as wal2json does, quotes and all."""
    return json.dumps(name, ensure_ascii=False).encode(codec)


def _name(value: bytes, codec: str) -> str:
    """Return a name that stands in quotes."""
    try:
        return _parsed(value.decode(codec))
    except UnicodeDecodeError:
        # A codec that keeps every byte, and JSON's escapes are of ASCII alone.
        return decode_name(_parsed(value.decode("latin-1")).encode("latin-1"), codec)


def _parsed(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as exc:
        raise unreadable("a text in a change cannot be read") from exc
