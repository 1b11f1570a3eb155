"""The changes of one table, read from messages and kept in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, repeat
from operator import itemgetter

from pgrepl.decoding.changes import (
    NULL,
    Change,
    ColumnMissing,
    Layout,
    Run,
    TableChanges,
    unreadable,
)
from pgrepl.decoding.pgoutput.columns import HEAD_BYTES, NULL_KIND, SHORT, escape, read_columns
from pgrepl.decoding.pgoutput.grammar import (
    DELETE,
    INSERT,
    NEW,
    TUPLE_AT,
    UNCHANGED,
    UPDATE,
    WHICH_AT,
    Relation,
    Tuple,
    old_tuple_at,
    read_tuple,
)
from pgrepl.decoding.pgoutput.writing import widen
from pgrepl.decoding.shape import Shape
from pgrepl.native import PLACE_BYTES, Native

__all__ = ["TupleChanges"]

#: Where it pays to read changes column by column.
_MANY_MESSAGES = 32
_FEW_COLUMNS = 16
#: What COPY's text format escapes; nulls have the backslash too.
_SPECIAL = re.compile(rb"[\\\n\t\r]")
_CONTROL = re.compile(rb"[\n\t\r]")
#: Where the size of a first column of less than 256 bytes stands in such a change, and the column.
_SIZE_AT = HEAD_BYTES + len(SHORT)
_KEY_AT = _SIZE_AT + 1


class TupleLayout(Layout):
    """The columns that some changes of a table carry, and how a change is made of them."""

    def __init__(self, shape: Shape, relation: Relation, present: Sequence[int]) -> None:
        """Take the columns that are there by their places."""
        names = relation.columns
        _check_all_sent(shape, names)
        super().__init__(shape, [names[place] for place in present], relation.identity)
        places = {name: place for place, name in enumerate(names)}
        self.new_places = [places[name] for name in self.columns]
        self.old_places = [places[name] for name in self.identity]


def _check_all_sent(shape: Shape, names: Sequence[str]) -> None:
    """Refuse changes without a column that only the source can compute."""
    for column in shape.columns:
        is_needed = column.is_computed or (column.is_generated and column.name in shape.key)
        if is_needed and column.name not in names:
            raise ColumnMissing(
                f'column "{column.name}" is generated on the source, and pgoutput does not send it'
                " before version 18"
            )


@dataclass(slots=True)
class TupleChanges(TableChanges):
    """Reads the messages of a table."""

    _layouts: dict[tuple[Relation, tuple[int, ...]], TupleLayout] = field(default_factory=dict)
    #: Changes that are found and not yet read, all of one description.
    _found: _Found | None = None

    def take_messages(self, relation: Relation, messages: Sequence[bytes]) -> None:
        """Read changes of this table, as it was described.

        Raises
        ------
        SpoolError
            when one cannot be read.

        """
        self.finish()
        self.count += len(messages)
        if self.is_upsert and self.shape is not None:
            relation, messages = _whole(self.shape, relation, messages)
        self._take(lambda: _Reader(self, relation).read(messages))

    def take_places(self, core: Native, relation: Relation, payload: bytes, places: bytes) -> None:
        """Take changes of this table, as ``take_messages`` does, where they stand in a payload.

        They are read by ``finish``: until then those can go that later ones replace.
        """
        self.count += len(places) // PLACE_BYTES
        if self._found is not None and self._found.relation is not relation:
            self.finish()
        if self._found is None:
            self._found = _Found(core, relation)
        self._found.add(payload, places)

    def finish(self) -> None:
        """Read what is found.

        Raises
        ------
        SpoolError
            when it cannot be read.

        """
        found, self._found = self._found, None
        if found is not None:
            found.condense()
            self._take(lambda: _Reader(self, found.relation).read_found(found))

    @property
    def left_count(self) -> int:
        """How many changes are kept."""
        found = 0 if self._found is None else self._found.count
        return found + sum(len(run.changes) for run in self.runs)

    def condense(self) -> None:
        """Keep of the changes of a row no more than the last, where that alone matters."""
        TableChanges.condense(self)
        if self._found is not None:
            self._found.condense()

    def _take(self, read: Callable[[], Sequence[Run]]) -> None:
        if self.shape is None:
            self.problem = ColumnMissing("the target has no such table")
            return
        try:
            for run in read():
                self.add_changes(run.layout, run.changes)
        except ColumnMissing as exc:
            self.problem = self.problem or exc
        except IndexError as exc:
            raise unreadable("a change cannot be read") from exc

    def layout(self, relation: Relation, present: tuple[int, ...]) -> TupleLayout:
        """Return the layout of changes that have these columns of the new row."""
        layout = self._layouts.get((relation, present))
        if layout is None:
            if self.shape is None:
                raise ColumnMissing("the target has no such table")
            layout = TupleLayout(self.shape, relation, present)
            self._layouts[relation, present] = layout
        return layout


@dataclass(slots=True)
class _Found:
    """Changes as one relation message describes them, where they stand in payloads."""

    core: Native
    relation: Relation
    #: Payloads, and places in each.
    pieces: list[tuple[bytes, bytes]] = field(default_factory=list)
    _is_condensed: bool = False

    def add(self, payload: bytes, places: bytes) -> None:
        """Add changes of another payload."""
        self.pieces.append((payload, places))
        self._is_condensed = False

    @property
    def count(self) -> int:
        """How many they are."""
        return sum(len(places) for _, places in self.pieces) // PLACE_BYTES

    def condense(self) -> None:
        """Keep the last update of each row, when all are updates that leave the key alone."""
        names, identity = self.relation.columns, self.relation.identity
        if self._is_condensed or not identity or identity != names[: len(identity)]:
            return
        self._is_condensed = True
        left = self.core.last_updates(self.pieces, len(names), len(identity))
        if left is not None:
            payloads = [payload for payload, _ in self.pieces]
            self.pieces = [own for own in zip(payloads, left, strict=True) if own[1]]


class _Reader:
    """Reads changes that have the columns of one relation message."""

    def __init__(self, owner: TupleChanges, relation: Relation) -> None:
        self._owner = owner
        self._relation = relation
        self._size = len(relation.columns)
        self._full = owner.layout(relation, tuple(range(self._size)))

    def read(self, messages: Sequence[bytes]) -> list[Run]:
        """Return the changes, those one after the other that have one layout together."""
        full, size = self._full, self._size
        if self._relation.identity == self._relation.columns[:1]:
            messages = _without_outdated(messages)
        columns = None
        if len(messages) >= _MANY_MESSAGES and size <= _FEW_COLUMNS:
            columns = read_columns(messages, size)
        if columns is not None:
            return [Run(full, self._changes(messages[0][:1], columns))]
        # The action stands before the columns.
        new_places = [place + 1 for place in full.new_places]
        is_whole = new_places == list(range(1, size + 1))
        with_identity = itemgetter(0, *new_places, *(place + 1 for place in full.old_places))
        runs: list[Run] = []
        changes: list[Change] = []
        current = full
        for message in messages:
            values = _cut(message, size) if is_whole else None
            if values is None:
                layout, change = self._read_one(message)
            else:
                layout = full
                change = with_identity(values) if values[0] == b"U" else tuple(values)
            if layout is not current:
                if changes:
                    runs.append(Run(current, changes))
                current, changes = layout, []
            changes.append(change)
        if changes:
            runs.append(Run(current, changes))
        return runs

    def read_found(self, found: _Found) -> list[Run]:
        """Return the changes as ``read`` does."""
        runs: list[Run] = []
        for payload, places in found.pieces:
            runs += self._read_places(found.core, payload, places)
        return runs

    def _read_places(self, core: Native, payload: bytes, places: bytes) -> list[Run]:
        full = self._full
        try:
            changes, is_mixed = core.read_changes(
                payload, places, self._size, full.new_places, full.old_places
            )
        except ValueError as exc:
            raise unreadable(str(exc)) from exc
        if not is_mixed:
            return [Run(full, changes)]
        # Those that leave values open are messages still.
        read = (
            (full, change) if isinstance(change, tuple) else self._read_one(change)
            for change in changes
        )
        return [
            Run(layout, [change for _, change in run])
            for layout, run in groupby(read, key=itemgetter(0))
        ]

    def _changes(self, action: bytes, columns: Sequence[Sequence[bytes]]) -> list[Change]:
        """Return inserts, or updates that leave the key alone, from their columns."""
        places = [*self._full.new_places]
        if action == b"U":
            places += self._full.old_places
        actions = repeat(action, len(columns[0]))
        return list(zip(actions, *(columns[place] for place in places), strict=True))

    def _read_one(self, message: bytes) -> tuple[TupleLayout, Change]:
        """Read any change."""
        action = message[0]
        if action not in (INSERT, UPDATE, DELETE):
            raise unreadable("a change of an unknown kind")
        old: Tuple | None = None
        new: Tuple | None = None
        at = TUPLE_AT
        if old_tuple_at(message) is None:
            is_complete = action != DELETE
        else:
            is_complete = action != INSERT and message[WHICH_AT] in b"KO"
            old, at = self._read_tuple(message, at)
            if action == UPDATE:
                # After it the new one is announced.
                is_complete &= message[at] == NEW
                at += 1
        if not is_complete:
            raise unreadable("a change does not say which row it changes")
        if action != DELETE:
            new, at = self._read_tuple(message, at)
        if at != len(message):
            raise unreadable("a change is too long")
        present = tuple(
            place for place in range(self._size) if new is None or new[place] is not UNCHANGED
        )
        layout = self._owner.layout(self._relation, present)
        values = [message[:1]]
        values += [b"" if new is None else _copy_value(new[place]) for place in layout.new_places]
        if action != INSERT:
            # A key that did not change is not sent twice.
            identity = new if old is None else old
            if identity is None or any(identity[at] is UNCHANGED for at in layout.old_places):
                raise unreadable("a change does not say which row it changes")
            values += [_copy_value(identity[place]) for place in layout.old_places]
        return layout, tuple(values)

    def _read_tuple(self, message: bytes, at: int) -> tuple[Tuple, int]:
        values, end = read_tuple(message, at)
        if len(values) != self._size:
            raise unreadable("a change has another number of columns than its table")
        return values, end


def _whole(
    shape: Shape, relation: Relation, messages: Sequence[bytes]
) -> tuple[Relation, Sequence[bytes]]:
    """Give rows the columns that the table got after they were written: they are whole, and null.

    What is unchanged is said so in a row itself.
    """
    extra = tuple(name for name in shape.stored if name not in relation.columns)
    if not extra or all(message[0] == DELETE for message in messages):
        return relation, messages
    wider = replace(relation, columns=relation.columns + extra)
    return wider, [widen(message, len(extra)) for message in messages]


def _without_outdated(messages: Sequence[bytes]) -> Sequence[bytes]:
    """Return the last update of each row, when all are updates that leave the key alone.

    The key is the first column. Those before need not even be read, as the last one has the whole
    row; an update that skips unchanged values does not.
    """
    # All that stands before the key, but for the oid, which is the same.
    if {message[:1] + message[WHICH_AT:_SIZE_AT] for message in messages} != {
        b"UN" + messages[0][TUPLE_AT:HEAD_BYTES] + SHORT
    }:
        return messages
    keys = [message[_KEY_AT : _KEY_AT + message[_SIZE_AT]] for message in messages]
    places = dict(zip(keys, range(len(keys)), strict=True))
    latest = [messages[place] for place in sorted(places.values())]
    return latest if all(map(_is_whole, latest)) else messages


def _is_whole(update: bytes) -> bool:
    return b"u" not in update or UNCHANGED not in read_tuple(update, TUPLE_AT)[0]


def _cut(message: bytes, size: int) -> list[bytes] | None:
    """Return action and columns of a change that has short texts and nulls alone, no old row."""
    pieces = message.split(SHORT)
    head = pieces[0]
    # The oid might be cut too.
    is_new_row = head[WHICH_AT:HEAD_BYTES] == b"N" + size.to_bytes(2)
    if not is_new_row or head[0] not in (INSERT, UPDATE):
        return None
    if len(pieces) == size + 1 and len(head) == HEAD_BYTES:
        values = [piece[1:] for piece in pieces]
        if [piece[0] for piece in pieces[1:] if piece] != list(map(len, values[1:])):
            return None
    else:
        found = _cut_with_nulls(pieces, size)
        if found is None:
            return None
        values = found
    values[0] = b""
    text = b"".join(values)
    if _SPECIAL.search(text) and (
        _CONTROL.search(text) or text.count(b"\\") != size + 1 - len(pieces)
    ):
        values = [value if value is NULL else escape(value) for value in values]
    values[0] = message[:1]
    return values


def _cut_with_nulls(pieces: Sequence[bytes], size: int) -> list[bytes] | None:
    """Return columns some of which are nulls, after a place for the action."""
    values: list[bytes] = [b""]
    rest = pieces[0][HEAD_BYTES:]
    for piece in pieces[1:]:
        if rest:
            if rest.strip(NULL_KIND):
                return None
            values += [NULL] * len(rest)
        end = piece[0] + 1 if piece else 1
        if end > len(piece):
            return None
        values.append(piece[1:end])
        rest = piece[end:]
    if rest:
        if rest.strip(NULL_KIND):
            return None
        values += [NULL] * len(rest)
    return values if len(values) == size + 1 else None


def _copy_value(value: bytes | None) -> bytes:
    """Return a value as COPY takes it."""
    return NULL if value is None else escape(value)
