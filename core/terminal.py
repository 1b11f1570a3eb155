r"""Texts as a terminal may have them, and commands as a shell takes them.

A name of a table is whatever its owner wrote: escape sequences, line breaks, ``$(rm -r ~)``. What
people read goes through ``printable``, what machines read through ``json_text``, and a command that
is offered to be copied is made by ``command``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pgrepl.lsn import Lsn

__all__ = [
    "command",
    "counted",
    "json_text",
    "print_time",
    "printable",
    "shell_word",
    "toml_text",
]

_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "'": r"\'", "\\": r"\\"}
# JSON writes characters from here on in two halves.
_ASTRAL = 0x10000
# A line of a document; its texts have no ends of lines but escaped ones.
_LINES = re.compile(r"[^\n]+")


def printable(text: str) -> str:
    r"""Keep a text on its line, and a terminal in its senses, whatever names are in the text.

    >>> print(printable("a\x1b[2Jb\n"))
    a\x1b[2Jb\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(count: int, noun: str, many: str | None = None) -> str:
    """Say how many there are of something.

    >>> counted(1, "change"), counted(2000, "change"), counted(2, "batch", "batches")
    ('1 change', '2,000 changes', '2 batches')
    """
    return f"1 {noun}" if count == 1 else f"{count:,} {many or noun + 's'}"


def print_time(at: datetime) -> str:
    """Return a time for people, in UTC.

    >>> print_time(datetime(2026, 3, 1, 12, tzinfo=UTC))
    '2026-03-01 12:00:00Z'
    """
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def json_text(value: Any, *, indent: int | None = None) -> str:  # noqa: ANN401  what JSON can hold
    r"""Return JSON with every character escaped that is none to see; it reads as the same values.

    LSNs are as PostgreSQL prints them, times in UTC with all their digits: one form everywhere.

    >>> print(json_text("\x9b2J é"))
    "\u009b2J é"
    >>> print(json_text({"lsn": Lsn(24), "at": datetime(2026, 3, 1, 12, tzinfo=UTC)}))
    {"lsn": "0/18", "at": "2026-03-01T12:00:00.000000Z"}
    """
    text = json.dumps(_in_one_form(value), indent=indent, default=str, ensure_ascii=False)
    if text.isprintable():
        return text
    return _LINES.sub(lambda line: "".join(map(_json_character, line[0])), text)


def toml_text(text: str) -> str:
    r"""Return a text as TOML has it, with every character escaped that is none to see.

    >>> print(toml_text('a "b"\x7f'))
    "a \"b\"\u007f"
    """
    return '"' + "".join(map(_toml_character, text)) + '"'


def shell_word(word: str) -> str:
    r"""Quote a word for a shell; one that no terminal could show, as bash and zsh write it.

    >>> print(shell_word("$(touch x)"), shell_word("a\nb"))
    '$(touch x)' $'a\nb'
    """
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(_shell_character(c) for c in word) + "'"


def command(*words: str) -> str:
    """Return a command of pgrepl that can be copied into a shell.

    >>> command("resync", "shop", "public.odd Table")
    "pgrepl resync shop 'public.odd Table'"
    """
    return " ".join(("pgrepl", *map(shell_word, words)))


def _in_one_form(value: Any) -> Any:  # noqa: ANN401  what JSON can hold, and what becomes that
    if isinstance(value, Lsn):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return {key: _in_one_form(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_in_one_form(item) for item in value]
    return value


def _json_character(c: str) -> str:
    if c.isprintable():
        return c
    # Not by json itself, which would leave DEL as it is.
    return f"\\u{ord(c):04x}" if ord(c) < _ASTRAL else json.dumps(c)[1:-1]


def _toml_character(c: str) -> str:
    if c in ('"', "\\"):
        return f"\\{c}"
    if c.isprintable():
        return c
    return f"\\u{ord(c):04x}" if ord(c) < _ASTRAL else f"\\U{ord(c):08x}"


def _shell_character(c: str) -> str:
    if c in _SHORT:
        return _SHORT[c]
    # By bytes: how far a shell reads a number depends on what follows, but not in octal.
    return c if c.isprintable() else "".join(f"\\{b:03o}" for b in c.encode(errors="replace"))
