r"""Changes of one table as every format gives them to whoever applies them.

A change is a tuple: the action first, then the values of the new row, then those of the old row's
identity that are of use. Values are the bytes that COPY takes, in the encoding of the source; NULL
is ``\N``. Changes that carry the same columns have one layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from pgrepl.decoding.shape import Shape
from pgrepl.errors import SpoolError
from pgrepl.native import native

__all__ = [
    "DELETE",
    "INSERT",
    "NULL",
    "TRUNCATE",
    "UPDATE",
    "Change",
    "ColumnMissing",
    "Key",
    "Layout",
    "Run",
    "TableChanges",
    "unreadable",
]

#: Actions.
INSERT, UPDATE, DELETE, TRUNCATE = b"I", b"U", b"D", b"T"

#: NULL in COPY's text format.
NULL = rb"\N"

#: Action, new values, identity values.
Change = tuple[bytes, ...]
#: The values of a key, or the value if there is one; as the source printed them.
Key = Any


class ColumnMissing(ValueError):
    """A change has a column that the target's table has not."""


class Layout:
    """The columns that some changes of a table carry, in their order."""

    def __init__(self, shape: Shape, columns: Sequence[str], identity: Sequence[str]) -> None:
        """Choose what is of use; every column must be on the target."""
        missing = [name for name in (*columns, *identity) if name not in shape.by_name]
        if missing:
            raise ColumnMissing(f'the target\'s table has no column "{missing[0]}"')
        carried = set(shape.carried)
        #: The columns whose new values a change has.
        self.columns = tuple(name for name in columns if name in carried)
        #: What tells rows apart. Empty: nothing but the whole row does, or no change has said yet.
        self.key = _choose_key(shape, columns, identity)
        #: The columns whose old values a change has: the key, or else the whole row.
        self.identity = tuple(
            name
            for name in identity
            if (name in self.key if self.key else not shape.by_name[name].is_generated)
        )
        #: Whether it leaves no column open.
        self.is_full = carried.issubset(columns)

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
        return itemgetter(*self.new_key_places(key))

    def new_key_places(self, key: Sequence[str]) -> tuple[int, ...]:
        """Return where the key of the new row stands in a change."""
        places = {name: place for place, name in enumerate(self.identity, len(self.columns) + 1)}
        places |= {name: place for place, name in enumerate(self.columns, 1)}
        return tuple(places[name] for name in key)

    def old_key(self, key: Sequence[str]) -> Callable[[Change], Key] | None:
        """Return what reads the key of the old row; None when no change has one."""
        places = self.old_key_places(key)
        return None if places is None else itemgetter(*places)

    def old_key_places(self, key: Sequence[str]) -> tuple[int, ...] | None:
        """Return where the key of the old row stands in a change; None when none has one."""
        if not self.identity:
            return None
        places = {name: place for place, name in enumerate(self.identity, len(self.columns) + 1)}
        return tuple(places[name] for name in key)


@dataclass(frozen=True, slots=True)
class Run:
    """Changes one after the other that have one layout."""

    layout: Layout
    changes: list[Change]

    @property
    def actions(self) -> set[bytes]:
        """What happens in it, each once."""
        return set(map(itemgetter(0), self.changes))

    def latest(self, key: Sequence[str]) -> dict[Key, Change] | None:
        """Return the last change of each row, when all are updates that leave the key alone.

        Each of them has the whole row, so that those before it do not matter. None: they may.
        """
        layout = self.layout
        old = layout.old_key_places(key) if key and layout.is_full and layout.columns else None
        if old is None or self.actions != {UPDATE} or not self.keeps_keys(key, old):
            return None
        return dict(zip(map(layout.new_key(key), self.changes), self.changes, strict=True))

    def keeps_keys(self, key: Sequence[str], old: tuple[int, ...]) -> bool:
        """Whether no update changes the key, whose old values stand at these places."""
        new = self.layout.new_key_places(key)
        if native is not None:
            return native.has_fixed(self.changes, new, old)
        old_of, new_of = itemgetter(*old), itemgetter(*new)
        return all(old_of(one) == new_of(one) for one in self.changes if one[0] == UPDATE)


@dataclass(slots=True)
class TableChanges:
    """The changes of one table, in order."""

    names: tuple[str, str]
    #: None when the target has no such table: then changes are only counted.
    shape: Shape | None
    #: The encoding of the values, as PostgreSQL names it.
    encoding: str = "UTF8"
    count: int = 0
    runs: list[Run] = field(default_factory=list)
    #: Whether an update makes the row if there is none, and a delete expects none.
    is_upsert: bool = False
    #: Why changes could not be read.
    problem: ColumnMissing | None = None

    def add_changes(self, layout: Layout, changes: list[Change]) -> None:
        """Add changes of one layout; those that begin like the ones before are of their run."""
        last = self.runs[-1] if self.runs else None
        if last is not None and last.layout is layout and last.changes[0][0] == changes[0][0]:
            last.changes.extend(changes)
        else:
            self.runs.append(Run(layout, changes))

    @property
    def left_count(self) -> int:
        """How many changes are kept."""
        return sum(len(run.changes) for run in self.runs)

    def condense(self) -> None:
        """Keep of the changes of a row no more than the last, where that alone matters."""
        for number, run in enumerate(self.runs):
            latest = run.latest(run.layout.key)
            if latest is not None:
                self.runs[number] = Run(run.layout, list(latest.values()))


def unreadable(what: str) -> SpoolError:
    """Return the error for a payload that is not what the receiver wrote."""
    return SpoolError(
        f"the spool is corrupted: {what}",
        hint="Nothing of it was applied. Did another program write into replication.raw_messages?",
    )


def _choose_key(shape: Shape, columns: Sequence[str], identity: Sequence[str]) -> tuple[str, ...]:
    """Take the target's own key where the identity has it, or else the identity."""
    if not identity or (shape.key and set(shape.key) <= set(identity)):
        return shape.key
    # An identity that is the whole row tells no two equal rows apart.
    return () if set(columns) <= set(identity) else tuple(identity)
