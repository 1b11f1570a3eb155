"""NaN and Infinity, which wal2json before 2.6 prints as null.

A null in a NOT NULL column cannot be one: there something was lost, and the table is marked. With
``special_floats = "exact"`` the source also says, in a notice before each change, which special
values it did not print; they are put back in their places as texts, the way wal2json 2.6 prints
them. The columns are those that the catalogue has now: a null in one that it does not know, because
it was renamed since, may be a special value as well, and then the table is marked.

A pattern of whole ``{"name":...,"value":null}`` objects cannot match inside a text, because
there every quote follows a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pgrepl.decoding.wal2json.grammar import STRING, literal

__all__ = ["FloatColumns"]

_NULL = b"null}"
_ANY_NULL = re.compile(rb'\{"name":(' + STRING + rb'),"value":null\}', re.DOTALL)


@dataclass(frozen=True, slots=True)
class FloatColumns:
    """The columns of a table that can hold special values: float4, float8 and numeric."""

    any_null: re.Pattern[bytes]
    #: None when every such column is nullable: then a null tells nothing.
    impossible_null: re.Pattern[bytes] | None
    #: The names of all columns of the table, as the plugin prints them.
    known: frozenset[bytes]

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        not_null_names: Sequence[str],
        column_names: Sequence[str],
        codec: str,
    ) -> FloatColumns | None:
        """Compile the patterns; None for a table without such columns."""
        if not names:
            return None
        impossible = _compile(not_null_names, codec) if not_null_names else None
        known = frozenset(literal(name, codec) for name in column_names)
        return cls(_compile(names, codec), impossible, known)

    def has_lost(self, line: bytes) -> bool:
        """Whether a special value was certainly lost in this change."""
        return self.impossible_null is not None and bool(self.impossible_null.search(line))

    def restore(self, line: bytes, specials: Sequence[bytes]) -> bytes | None:
        """Put special values back into a change, in the order the source met them.

        None when there are other nulls too and nothing tells them apart.
        """
        if not self.known.issuperset(_ANY_NULL.findall(line)):
            return None
        for pattern in (self.any_null, self.impossible_null):
            places = [] if pattern is None else [match.end() for match in pattern.finditer(line)]
            if len(places) == len(specials):
                return _fill(line, places, specials)
        return None


def _compile(names: Sequence[str], codec: str) -> re.Pattern[bytes]:
    listed = b"|".join(re.escape(literal(name, codec)) for name in names)
    return re.compile(rb'\{"name":(?:' + listed + rb'),"value":null\}')


def _fill(line: bytes, ends: Sequence[int], values: Sequence[bytes]) -> bytes:
    pieces = []
    done = 0
    for end, value in zip(ends, values, strict=True):
        pieces += [line[done : end - len(_NULL)], b'"', value, b'"}']
        done = end
    pieces.append(line[done:])
    return b"".join(pieces)
