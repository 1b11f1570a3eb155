r"""Lines without what they have in common, as the spool keeps many of them.

Two thirds of a line are names, the same in every line of a table. Here they are written once: the
lines of a payload become records, one for each, with a newline between them.

- ``#`` and a number: the first record. So many bytes have the lines, joined by newlines.
- ``=`` and a **pattern**, a line in which a tab stands for each value. The patterns of a payload
  are numbered from 0; each stands before the first line that needs it.
- A number, and after a tab each the values of a line: it is the pattern of this number with these.
  An empty value is the one at the same place of the last line with a pattern that is a begin line.
- ``{``: a line as it is.

A value is a text with its quotes or a bare word, and so never empty. No line has a control
character: JSON escapes them.

What comes out is, byte by byte, what went in; only ``expand`` knows of it, and every reader sees
lines. Only what is compiled writes it: in Python it would take longer than it saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from pgrepl.decoding.changes import unreadable
from pgrepl.native import native

__all__ = ["FORMAT", "expand", "lines_of", "shorten"]

#: What a row of the spool says.
FORMAT = "wal2json-short"

_SIZE_MARK = b"#"
_PATTERN_MARK = b"="
_LINE_MARK = b"{"
_BEGIN = b'{"action":"B"'

#: Of fewer lines there is too little to save.
_FEW_LINES = 8

#: As ``short.h`` has them.
_MOST_BYTES = 1 << 31
_MOST_PATTERNS = 128
_MOST_VALUES = 4096
_MOST_BEGIN_VALUES = 8
_MOST_DIGITS = 12


def shorten(lines: Sequence[bytes]) -> bytes | None:
    """Return lines as records; None when they are kept as they are."""
    if native is None or len(lines) < _FEW_LINES:
        return None
    return native.shorten(list(lines))


def lines_of(payload: bytes) -> bytes:
    """Return the lines of a payload, short or not."""
    if not payload.startswith(_SIZE_MARK):
        return payload
    if native is None:
        return expand(payload)
    try:
        return native.expand(payload)
    except ValueError as exc:
        raise unreadable(str(exc)) from exc


def expand(payload: bytes) -> bytes:
    """Return the lines of a short payload.

    Raises
    ------
    SpoolError
        when it is not what the receiver wrote.

    """
    first, *records = payload.split(b"\n")
    size = _number(first.removeprefix(_SIZE_MARK), _MOST_BYTES)
    if not first.startswith(_SIZE_MARK) or size is None:
        raise unreadable("a payload does not say its size")
    patterns: list[list[bytes]] = []
    begin: Sequence[bytes] = ()
    lines: list[bytes] = []
    for record in records:
        mark = record[:1]
        if mark == _PATTERN_MARK:
            patterns.append(_read_pattern(record[1:], len(patterns)))
        elif mark == _LINE_MARK:
            lines.append(record)
        else:
            pattern, values = _read_values(record, patterns, begin)
            if pattern[0].startswith(_BEGIN):
                begin = values[:_MOST_BEGIN_VALUES]
            pairs = zip(pattern, values, strict=False)
            lines.append(b"".join(chain.from_iterable(pairs)) + pattern[-1])
    found = b"\n".join(lines)
    if len(found) != size:
        longer = "longer" if len(found) > size else "shorter"
        raise unreadable(f"lines are {longer} than they should be")
    return found


def _read_pattern(text: bytes, known: int) -> list[bytes]:
    pieces = text.split(b"\t")
    if not 1 < len(pieces) <= _MOST_VALUES + 1 or known == _MOST_PATTERNS:
        raise unreadable("a pattern cannot be read")
    return pieces


def _read_values(
    record: bytes, patterns: Sequence[list[bytes]], begin: Sequence[bytes]
) -> tuple[list[bytes], list[bytes]]:
    """Return the pattern of a line, and its values."""
    first, *values = record.split(b"\t")
    if len(values) > _MOST_VALUES:
        raise unreadable("there are too many values")
    number = _number(first, _MOST_PATTERNS)
    if number is None or number >= len(patterns):
        raise unreadable("a line has no pattern")
    pattern = patterns[number]
    if len(values) != len(pattern) - 1:
        raise unreadable("a line has not the values of its pattern")
    for place, value in enumerate(values):
        if not value:
            if place >= len(begin):
                raise unreadable("a value is missing")
            values[place] = begin[place]
    return pattern, values


def _number(text: bytes, limit: int) -> int | None:
    if not text.isdigit() or len(text) > _MOST_DIGITS or int(text) > limit:
        return None
    return int(text)
