"""Values as COPY takes them, as the texts of arrays. Pure.

A value may have many megabytes, each byte of them escaped: what costs something for each escape, in
time or in memory, is not done here.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.decoding.changes import NULL, unreadable

__all__ = ["array_text"]

#: COPY's escapes that are not the character itself. The text of an array has no such ones.
_ESCAPES = (
    (rb"\b", b"\b"),
    (rb"\f", b"\f"),
    (rb"\n", b"\n"),
    (rb"\r", b"\r"),
    (rb"\t", b"\t"),
    (rb"\v", b"\v"),
)
#: Stands for an escaped backslash while others are looked for: no text of PostgreSQL's has it.
_BACKSLASH = b"\0"


def array_text(values: Sequence[bytes]) -> bytes:
    """Return values as COPY takes them as the text of an array."""
    joined = b'","'.join(values)
    if b"\\" not in joined and joined.count(b'"') == 2 * (len(values) - 1):
        return b'{"%b"}' % joined
    return b"{%b}" % b",".join(map(_element, values))


def _element(value: bytes) -> bytes:
    if value == NULL:
        return b"NULL"
    if b"\\" not in value:
        return b'"%b"' % value.replace(b'"', rb"\"")
    if _BACKSLASH in value:
        raise unreadable("a text has the character NUL")
    value = value.replace(rb"\\", _BACKSLASH)
    for escape, character in _ESCAPES:
        value = value.replace(escape, character)
    # A quote is escaped by some and not by others.
    value = value.replace(rb"\"", b'"').replace(b'"', rb"\"")
    return b'"%b"' % value.replace(_BACKSLASH, rb"\\")
