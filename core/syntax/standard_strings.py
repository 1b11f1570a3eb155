"""Texts of sessions with ``standard_conforming_strings = off``, as all others write them. Pure.

There a backslash escapes inside plain quotes. PostgreSQL's grammar has no such setting: in the text
that it gets, these constants are marked as what they are, ``E'…'``.
"""

from __future__ import annotations

import re

__all__ = ["as_standard"]

_PIECE = r"'(?:[^'\\]|\\.|'')*'"
_TOKEN = re.compile(
    rf"""
      --[^\n]*
    | (?P<comment>/\*)
    | "(?:[^"]|"")*"
    | (?<![\w$])(?P<tag>\$(?:[^\W\d]\w*)?\$)
    # A constant goes on after the end of the line.
    | (?P<prefix>(?<![\w$])[eEbBxXnN])?(?P<constant>{_PIECE}(?:[ \t\f\r]*\n\s*{_PIECE})*)
    """,
    re.VERBOSE | re.DOTALL,
)
_MARKS = {"": " E", "n": "nchar E"}
_COMMENT_PART = re.compile(r"/\*|\*/")


def as_standard(text: str) -> str:
    """Return the text with escapes marked in its constants."""
    pieces: list[str] = []
    end = 0
    while match := _TOKEN.search(text, end):
        pieces.append(text[end : match.start()])
        end = match.end()
        if match["comment"]:
            end = _end_of_comment(text, end)
        elif match["tag"]:
            closed = text.find(match["tag"], end)
            end = len(text) if closed < 0 else closed + len(match["tag"])
        prefix = (match["prefix"] or "").lower()
        if match["constant"] and "\\" in match["constant"] and prefix in _MARKS:
            pieces.append(_MARKS[prefix] + match["constant"])
        else:
            pieces.append(text[match.start() : end])
    return "".join([*pieces, text[end:]])


def _end_of_comment(text: str, start: int) -> int:
    """Return where a comment ends, which may hold others."""
    depth = 1
    for match in _COMMENT_PART.finditer(text, start):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(text)
