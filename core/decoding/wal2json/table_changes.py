"""The changes of one table, read from lines and kept in order."""

from __future__ import annotations

import json
import re
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from pgrepl.decoding.changes import (
    DELETE,
    INSERT,
    NULL,
    Change,
    ColumnMissing,
    TableChanges,
    unreadable,
)
from pgrepl.decoding.shape import Shape
from pgrepl.decoding.wal2json.grammar import (
    COLUMNS,
    ENTRY_MARK,
    IDENTITY,
    UNICODE_ESCAPE,
    action_of,
    copy_value,
    mark_nulls,
    read_entries,
    unmark_nulls,
)
from pgrepl.decoding.wal2json.layout import LineLayout
from pgrepl.native import native

__all__ = ["LineChanges", "readable"]

_BYTEA_PREFIX = rb"\\x"
#: A backslash that is not one of a marked null.
_ESCAPE = re.compile(rb"\\[^N]")
_Columns = tuple[str, ...]
#: Table, codec, columns, identity, whether numbers are texts.
_Names = tuple[tuple[str, str], str, _Columns, _Columns, bool]
#: Compiled for a table of the target, for as long as it is known: that takes longer than to read
#: some hundred lines.
_layouts: MutableMapping[Shape, dict[_Names, LineLayout]] = WeakKeyDictionary()
#: Action and number of entries: lines of one layout have the same, and seldom others.
_Signature = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Found:
    """Changes in a text, and of how many lines they are: some may be replaced by later ones."""

    count: int
    changes: list[Change]


@dataclass(slots=True)
class LineChanges(TableChanges):
    """Reads the lines of a table; a layout is compiled when the first line of it comes."""

    codec: str = "utf-8"
    _by_signature: dict[_Signature, LineLayout] = field(default_factory=dict)
    _latest: LineLayout | None = None
    _columns: _Columns = ()
    _identity: _Columns = ()
    _has_text_numbers: bool = False

    def find(self, text: bytes) -> Found:
        """Return the changes of this table that its latest layout finds in a ``readable`` text."""
        layout = self._latest
        if layout is None:
            return Found(0, [])
        if native is None:
            changes = _read_all(layout, text)
            return Found(len(changes), changes)
        count, changes, has_escapes = layout.read_latest(native, text)
        has_controls = has_escapes and UNICODE_ESCAPE in text
        return Found(count, _as_copied(layout, changes, has_controls=has_controls))

    def learn(self, line: bytes) -> None:
        """Expect lines like this one."""
        with suppress(ColumnMissing):
            self._latest = self._layout_of(line)

    def add_found(self, found: Found) -> None:
        """Add changes that ``find`` has found."""
        if self._latest is not None and found.changes:
            self._add(self._latest, found.changes, found.count)

    def take_lines(self, lines: Sequence[bytes]) -> None:
        """Read lines of this table, nulls marked.

        Raises
        ------
        SpoolError
            when one cannot be read.

        """
        if self.shape is None:
            self.problem = ColumnMissing("the target has no such table")
            self.count += len(lines)
            return
        found = self.find(b"\n".join(lines))
        if found.count == len(lines):
            self.add_found(found)
            return
        try:
            self._take_mixed(lines)
        except ColumnMissing as exc:
            self.problem = self.problem or exc
            self.count += len(lines)

    def _take_mixed(self, lines: Sequence[bytes]) -> None:
        """Read lines of several layouts: those of each together, and put them in order again."""
        signatures = [(action_of(line), line.count(ENTRY_MARK)) for line in lines]
        groups: dict[_Signature, list[bytes]] = {}
        for signature, line in zip(signatures, lines, strict=True):
            groups.setdefault(signature, []).append(line)
        read = {own: iter(self._read_group(own, group)) for own, group in groups.items()}
        run: list[Change] = []
        run_layout: LineLayout | None = None
        for signature in signatures:
            layout, change = next(read[signature])
            if layout is not run_layout:
                if run_layout is not None:
                    self._add(run_layout, run, len(run))
                run_layout, run = layout, []
            run.append(change)
        if run_layout is not None:
            self._add(run_layout, run, len(run))

    def _read_group(
        self, signature: _Signature, lines: Sequence[bytes]
    ) -> list[tuple[LineLayout, Change]]:
        """Read lines that are likely to have one layout, or else one by one."""
        layout = self._by_signature.get(signature) or self._layout_of(lines[0])
        changes = _read_all(layout, b"\n".join(lines))
        if len(changes) == len(lines):
            self._by_signature[signature] = layout
            return [(layout, change) for change in changes]
        return [self._read_line(line) for line in lines]

    def _read_line(self, line: bytes) -> tuple[LineLayout, Change]:
        layout = self._layout_of(line)
        changes = _read_all(layout, line)
        if len(changes) != 1:
            if _is_whole(line):
                raise ColumnMissing("a column of the target's table has another type")
            raise unreadable("a change cannot be read")
        return layout, changes[0]

    def _layout_of(self, line: bytes) -> LineLayout:
        """Return the layout of a line; what it does not say itself is as in the line before."""
        action = action_of(line)
        if action != DELETE:
            self._columns, self._has_text_numbers = self._names_after(
                line, line.find(COLUMNS), COLUMNS
            )
        if action != INSERT:
            self._identity, self._has_text_numbers = self._names_after(
                line, line.rfind(IDENTITY), IDENTITY
            )
        names = self.names, self.codec, self._columns, self._identity, self._has_text_numbers
        if self.shape is None:
            raise ColumnMissing("the target has no such table")
        layouts = _layouts.setdefault(self.shape, {})
        layout = layouts.get(names)
        if layout is None:
            layout = layouts[names] = LineLayout(
                self.shape,
                self.names,
                self._columns,
                self._identity,
                codec=self.codec,
                has_text_numbers=self._has_text_numbers,
            )
        return layout

    def _names_after(self, line: bytes, at: int, mark: bytes) -> tuple[_Columns, bool]:
        """Return the columns of a list, and whether integers among them are printed as texts."""
        if at < 0:
            raise unreadable("a change has not the columns that its kind must have")
        names, values = read_entries(line, at + len(mark), self.codec)
        kinds = {} if self.shape is None else self.shape.by_name
        integers = [
            value
            for name, value in zip(names, values, strict=True)
            if name in kinds and kinds[name].kind == "integer" and value != NULL
        ]
        has_texts = any(value.startswith(b'"') for value in integers)
        return tuple(names), has_texts or (self._has_text_numbers and not integers)

    def _add(self, layout: LineLayout, changes: list[Change], count: int) -> None:
        self._latest = layout
        self.count += count
        self.add_changes(layout, changes)


def readable(payload: bytes) -> bytes:
    """Return lines with their nulls marked, unless what is compiled reads them as they are."""
    return payload if native is not None else mark_nulls(payload)


def _is_whole(line: bytes) -> bool:
    """Whether a line is what wal2json printed, nulls marked since."""
    try:
        # Whatever its encoding, what it is made of is ASCII.
        change = json.loads(unmark_nulls(line).decode("latin-1"))
    except ValueError:
        return False
    return isinstance(change, dict) and change.get("action") in ("I", "U", "D")


def _read_all(layout: LineLayout, text: bytes) -> list[Change]:
    """Return the changes of a layout, their values as COPY takes them; nearly always they are."""
    has_escapes = _ESCAPE.search(text) is not None
    changes = layout.find_all(text, has_escapes=has_escapes)
    return _as_copied(layout, changes, has_controls=has_escapes and UNICODE_ESCAPE in text)


def _as_copied(layout: LineLayout, changes: list[Change], *, has_controls: bool) -> list[Change]:
    """Return changes whose values COPY takes, where they were found as JSON has them."""
    if layout.hex_places:
        changes = [_with_hex(change, layout.hex_places) for change in changes]
    if has_controls:
        changes = [tuple(map(copy_value, change)) for change in changes]
    return changes


def _with_hex(change: Change, places: Sequence[int]) -> Change:
    """Put the prefix before hex digits, which wal2json skips."""
    values = list(change)
    for place in places:
        if values[place] != NULL:
            values[place] = _BYTEA_PREFIX + values[place]
    return tuple(values)
