"""Values as COPY takes them, as the texts of arrays. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgrepl.decoding.changes import NULL

__all__ = ["array_text"]

#: COPY's escapes that are not the character itself.
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_COPY_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_SPECIAL = re.compile(rb'["\\]')


def array_text(values: Sequence[bytes]) -> bytes:
    """Return values as COPY takes them as the text of an array."""
    joined = b'","'.join(values)
    if b"\\" not in joined and joined.count(b'"') == 2 * (len(values) - 1):
        return b'{"%b"}' % joined
    return b"{%b}" % b",".join(map(_element, values))


def _element(value: bytes) -> bytes:
    if value == NULL:
        return b"NULL"
    if b"\\" in value:
        value = _COPY_ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), value)
    return b'"%b"' % _SPECIAL.sub(rb"\\\g<0>", value)
