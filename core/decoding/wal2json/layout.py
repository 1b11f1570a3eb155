r"""Lines of a table that carry the same columns have one layout, and one pattern reads them all.

The pattern runs over whole payloads at once, and what it finds is what COPY takes: one tuple for
each change, the action first, then the values of the new row, then those of the old row's identity
that are of use. A value is a text without its quotes, or a bare number; NULL is ``\N``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from pgrepl.decoding.shape import Column, Shape

__all__ = ["Change", "ColumnMissing", "Key", "Layout"]

# Nothing here is ever tried in another way: a quantifier that gives nothing back is faster.
# Before the table stand the same few fields in every line.
_HEAD = (
    rb'\{"action":"([IUD])","xid":[0-9]++,"timestamp":"[^"]*+",'
    rb'(?:"origin":[0-9]++,)?"lsn":"[^"]*+",'
)
# An integer or boolean; wal2json prints it bare or, since 2.6, as a text.
_NUMBER = rb'([^"}]*+)'
_TEXT_NUMBER = rb'"?([^"}]*+)"?'
# NaN is a text always.
_FLOAT = rb'"?([^"}]*+)"?'
# A text, or a null, which has no quotes. One without a backslash is read faster.
_TEXT = rb'"?(\\N|[^"\\]*+(?:\\.[^"\\]*+)*+)"?'
_PLAIN_TEXT = rb'"?(\\N|[^"]*+)"?'

#: Action, new values, identity values.
Change = tuple[bytes, ...]
#: The values of a key, or the value if there is one; as wal2json printed them.
Key = Any


class ColumnMissing(ValueError):
    """A change has a column that the target's table has not."""


class Layout:
    """The columns that some lines of a table carry, in their order."""

    def __init__(
        self,
        shape: Shape,
        names: tuple[str, str],
        columns: Sequence[str],
        identity: Sequence[str],
        *,
        has_text_numbers: bool,
    ) -> None:
        """Compile it for a table by its names on the source; its columns must be on the target."""
        missing = [name for name in (*columns, *identity) if name not in shape.by_name]
        if missing:
            raise ColumnMissing(f'the target\'s table has no column "{missing[0]}"')
        carried = set(shape.carried)
        #: The columns whose new values a change has.
        self.columns = tuple(name for name in columns if name in carried)
        #: What tells rows apart. Empty: nothing but the whole row does, or no line has said yet.
        self.key = _choose_key(shape, columns, identity)
        #: The columns whose old values a change has: the key, or else the whole row.
        self.identity = tuple(
            name
            for name in identity
            if (name in self.key if self.key else not shape.by_name[name].is_generated)
        )
        #: Whether it leaves no column open.
        self.is_full = len(columns) == len(shape.columns)
        self.hex_places = [
            place
            for place, name in enumerate((*self.columns, *self.identity), 1)
            if shape.by_name[name].kind == "bytea"
        ]
        patterns = [
            _pattern(
                names,
                [(shape.by_name[name], name in carried) for name in columns],
                [(shape.by_name[name], name in self.identity) for name in identity],
                body,
                _TEXT_NUMBER if has_text_numbers else _NUMBER,
            )
            for body in (_PLAIN_TEXT, _TEXT)
        ]
        self._has_values = patterns[0].groups > 1
        self._find_plain, self._find_escaped = (pattern.findall for pattern in patterns)

    def find_all(self, text: bytes, *, has_escapes: bool) -> list[Change]:
        """Return the changes of this layout in a text of lines, whose nulls are marked."""
        found = self._find_escaped(text) if has_escapes else self._find_plain(text)
        # Without any value the action alone is found, and not in a tuple.
        return found if self._has_values else [(action,) for action in found]

    def values(self, change: Change) -> Change:
        """Return the new row's values."""
        return change[1 : len(self.columns) + 1]

    def old_values(self, change: Change) -> Change:
        """Return the old row's values, as far as they are of use."""
        return change[len(self.columns) + 1 :]

    def new_key(self, key: Sequence[str]) -> Callable[[Change], Key]:
        """Return what reads the key of the new row.

        A key column that is unchanged and too big to be in the row is the old one.
        """
        places = {name: place for place, name in enumerate(self.identity, len(self.columns) + 1)}
        places |= {name: place for place, name in enumerate(self.columns, 1)}
        return itemgetter(*(places[name] for name in key))

    def old_key(self, key: Sequence[str]) -> Callable[[Change], Key] | None:
        """Return what reads the key of the old row; None when no line has one."""
        if not self.identity:
            return None
        places = {name: place for place, name in enumerate(self.identity, len(self.columns) + 1)}
        return itemgetter(*(places[name] for name in key))


def _choose_key(shape: Shape, columns: Sequence[str], identity: Sequence[str]) -> tuple[str, ...]:
    """Take the target's own key where the identity has it, or else the identity."""
    if not identity or (shape.key and set(shape.key) <= set(identity)):
        return shape.key
    # An identity that is the whole row tells no two equal rows apart.
    return () if set(columns) <= set(identity) else tuple(identity)


def _pattern(
    names: tuple[str, str],
    columns: Sequence[tuple[Column, bool]],
    identity: Sequence[tuple[Column, bool]],
    body: bytes,
    number: bytes,
) -> re.Pattern[bytes]:
    def entries(of: Sequence[tuple[Column, bool]]) -> bytes:
        return b",".join(_entry(column, is_captured, body, number) for column, is_captured in of)

    schema, table = (re.escape(_literal(name)) for name in names)
    # A DELETE has no columns, an INSERT no identity; a table may have no column at all.
    old = rb'(?:,"identity":\[' + entries(identity) + rb"\])?" if identity else b""
    new = rb'(?:,"columns":\[' + entries(columns) + rb"\])?"
    head = _HEAD + rb'"schema":' + schema + rb',"table":' + table
    return re.compile(head + new + old + rb"\}", re.DOTALL)


def _entry(column: Column, is_captured: bool, body: bytes, number: bytes) -> bytes:  # noqa: FBT001
    """Return the pattern of one entry of a list of columns."""
    value = number if column.kind == "integer" else _FLOAT if column.kind == "float" else body
    if not is_captured:
        value = value.replace(b"(", b"(?:", 1)
    return rb'\{"name":' + re.escape(_literal(column.name)) + rb',"value":' + value + rb"\}"


def _literal(name: str) -> bytes:
    """Print a name as wal2json does."""
    return json.dumps(name, ensure_ascii=False).encode()
