r"""Lines of a table that carry the same columns have one layout, and one pattern reads them all.

The pattern runs over whole payloads at once, and what it finds is what COPY takes: one tuple for
each change, the action first, then the values of the new row, then those of the old row's identity
that are of use. A value is a text without its quotes, or a bare number; NULL is ``\N``.
The compiled core does it without a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pgrepl.decoding.changes import Change, Layout
from pgrepl.decoding.shape import Column, Shape
from pgrepl.decoding.wal2json.grammar import literal
from pgrepl.native import Entry, Native

__all__ = ["LineLayout"]

# Nothing here is ever tried in another way: a quantifier that gives nothing back is faster. Nothing
# goes beyond its line, and nothing is found in a part of one: such a line is corrupted. The brace
# comes before what asks for the beginning, so that the pattern is looked for by its first bytes.
# Before the table stand the same few fields in every line.
_HEAD = (
    rb'\{(?<![^\n]\{)"action":"([IUD])","xid":[0-9]++,"timestamp":"[^"\n]*+",'
    rb'(?:"origin":[0-9]++,)?"lsn":"[^"\n]*+",'
)
# A boolean, bare always.
_BOOLEAN = rb'([^"}\n]*+)'
# An integer; wal2json prints it bare or, since 2.6, as a text. Where its quotes do not tell it from
# other texts, its characters do: a text that is none means that the column has another type.
_NUMBER = rb'([^"}\n]*+)'
_TEXT_NUMBER = rb'"?+([-0-9\\N]*+)"?+'
# NaN is a text always.
_FLOAT = rb'"?+([^"}\n]*+)"?+'
# A text, or a null, which has no quotes. One without a backslash is read faster. A quote that could
# be given back would be found again after an empty value, before a text like the end of a line.
_TEXT = rb'"?+(\\N|(?<=")[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+)"?+'
_PLAIN_TEXT = rb'"?+(\\N|(?<=")[^"\n]*+)"?+'

# The letters by which the compiled core knows them.
_BARE_KIND, _NUMBER_KIND, _FLOAT_KIND, _TEXT_KIND = "bnft"


class LineLayout(Layout):
    """The columns that some lines of a table carry, and what reads those lines."""

    def __init__(
        self,
        shape: Shape,
        names: tuple[str, str],
        columns: Sequence[str],
        identity: Sequence[str],
        *,
        codec: str,
        has_text_numbers: bool,
    ) -> None:
        """Compile it for a table by its names on the source."""
        super().__init__(shape, columns, identity)
        carried = set(shape.carried)
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
                codec=codec,
                body=body,
                number=_TEXT_NUMBER if has_text_numbers else _NUMBER,
            )
            for body in (_PLAIN_TEXT, _TEXT)
        ]
        self._has_values = patterns[0].groups > 1
        self._find_plain, self._find_escaped = (pattern.findall for pattern in patterns)
        kinds = {
            "boolean": _BARE_KIND,
            "integer": _NUMBER_KIND if has_text_numbers else _BARE_KIND,
            "float": _FLOAT_KIND,
        }

        def entries(of: Sequence[str], captured: Collection[str]) -> tuple[Entry, ...]:
            return tuple(
                (
                    _before(name, codec),
                    kinds.get(shape.by_name[name].kind, _TEXT_KIND),
                    name in captured,
                )
                for name in of
            )

        schema, table = (literal(name, codec) for name in names)
        self._table = b'"schema":' + schema + b',"table":' + table
        self._entries = entries(columns, carried), entries(identity, self.identity)
        #: Where the key stands among the values of the new row and of the old one, if later lines
        #: of a row replace earlier ones.
        self._key: tuple[tuple[int, int], ...] = ()
        if self.is_full and self.key and {*self.key} <= {*self.columns} & {*self.identity}:
            self._key = tuple(
                (self.columns.index(name), len(self.columns) + self.identity.index(name))
                for name in self.key
            )

    def find_all(self, text: bytes, *, has_escapes: bool) -> list[Change]:
        """Return the changes of this layout in a text of lines, whose nulls are marked."""
        found = self._find_escaped(text) if has_escapes else self._find_plain(text)
        # Without any value the action alone is found, and not in a tuple.
        return found if self._has_values else [(action,) for action in found]

    def read_latest(self, core: Native, text: bytes) -> tuple[int, list[Change], bool]:
        """Return how many lines ``find_all`` would find, their changes, and if one has escapes.

        Of a row with updates alone that leave its key as it is, the last one is all that is needed.
        """
        return core.read_lines(text, self._table, *self._entries, self._key)


def _before(name: str, codec: str) -> bytes:
    """Return what stands before the value of a column."""
    return b'{"name":' + literal(name, codec) + b',"value":'


def _pattern(
    names: tuple[str, str],
    columns: Sequence[tuple[Column, bool]],
    identity: Sequence[tuple[Column, bool]],
    *,
    codec: str,
    body: bytes,
    number: bytes,
) -> re.Pattern[bytes]:
    of_kind = {"boolean": _BOOLEAN, "integer": number, "float": _FLOAT}

    def entries(of: Sequence[tuple[Column, bool]]) -> bytes:
        found = []
        for column, is_captured in of:
            value = of_kind.get(column.kind, body)
            # Of no use: not captured.
            value = value if is_captured else value.replace(b"(", b"(?:", 1)
            found.append(re.escape(_before(column.name, codec)) + value + rb"\}")
        return b",".join(found)

    schema, table = (re.escape(literal(name, codec)) for name in names)
    # A DELETE has no columns, an INSERT no identity; a table may have no column at all.
    old = rb'(?:,"identity":\[' + entries(identity) + rb"\])?" if identity else b""
    new = rb'(?:,"columns":\[' + entries(columns) + rb"\])?"
    head = _HEAD + rb'"schema":' + schema + rb',"table":' + table
    return re.compile(head + new + old + rb"\}(?![^\n])", re.DOTALL)
