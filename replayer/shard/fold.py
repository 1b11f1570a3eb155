"""Many changes of a table become one per row: what is left when all of them have happened.

A row is known by its key. What it went through inside a chunk does not matter, only where it was
before (``old_key``) and its last state. An UPDATE skips unchanged values that are stored out of
line, so a row's state can be several changes laid over one another.

A table without a key is a multiset: each distinct row has a count of how many came or went.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgrepl.decoding.changes import (
    DELETE,
    INSERT,
    UPDATE,
    Change,
    ColumnMissing,
    Key,
    Layout,
    Run,
    TableChanges,
    unreadable,
)
from pgrepl.decoding.shape import Shape

__all__ = [
    "KeyedNet",
    "MultisetNet",
    "RowState",
    "UpdatedRows",
    "fold",
    "fold_multiset",
    "is_insert_only",
    "net_of",
    "split_by_key",
]


@dataclass(slots=True)
class RowState:
    """A row that is there when the changes have happened."""

    #: Its key before the first of them; None when it was not there.
    old_key: Key | None
    #: The change that set its last state.
    layout: Layout
    change: Change
    #: Changes before that with columns that the last one has not, oldest first.
    older: tuple[tuple[Layout, Change], ...] = ()

    def lay_over(self, layout: Layout, change: Change) -> None:
        """Make a change the last state, and keep of those before what it leaves open."""
        known = set(layout.columns)
        kept = []
        for before in reversed((*self.older, (self.layout, self.change))):
            if not known.issuperset(before[0].columns):
                kept.append(before)
                known.update(before[0].columns)
        self.older = tuple(reversed(kept))
        self.layout, self.change = layout, change


class UpdatedRows(Mapping[Key, RowState]):
    """Rows that were there before and keep their keys, each with one change that is all of it."""

    def __init__(self, layout: Layout, latest: Mapping[Key, Change]) -> None:
        """Take the change of each row."""
        self.layout = layout
        self._latest = latest

    @property
    def changes(self) -> list[Change]:
        """The changes, one of each row."""
        return list(self._latest.values())

    def __getitem__(self, key: Key) -> RowState:
        """Return a row."""
        return RowState(key, self.layout, self._latest[key])

    def __iter__(self) -> Iterator[Key]:
        """Return the keys."""
        return iter(self._latest)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._latest)


@dataclass(frozen=True, slots=True)
class KeyedNet:
    """The net change of a table with a key."""

    key: tuple[str, ...]
    #: Rows that are there, by their last key.
    rows: Mapping[Key, RowState]
    #: Keys of rows that were there and do not exist any more.
    removed: Sequence[Key]
    #: Whether nobody knows which rows were there before: see ``TableChanges.is_upsert``.
    is_upsert: bool = False


@dataclass(frozen=True, slots=True)
class MultisetNet:
    """The net change of a table without a key: distinct rows, and how many more or fewer."""

    columns: tuple[str, ...]
    counts: Counter[Change]


def is_insert_only(changes: TableChanges) -> bool:
    """Whether a table has new rows only."""
    return all(run.actions == {INSERT} for run in changes.runs)


def net_of(shape: Shape, changes: TableChanges) -> KeyedNet | MultisetNet:
    """Return the net change of a table; of new rows alone each is one, whatever its key."""
    if not is_insert_only(changes) or changes.is_upsert:
        return fold(changes.runs, is_upsert=changes.is_upsert)
    if not (shape.stored and shape.key):
        return fold_multiset(changes.runs)
    inserts = ((run.layout, change) for run in changes.runs for change in run.changes)
    rows = {number: RowState(None, *insert) for number, insert in enumerate(inserts)}
    return KeyedNet(shape.key, rows, ())


def split_by_key(runs: Sequence[Run]) -> list[list[Run]]:
    """Cut runs where the replica identity changed: another key tells rows apart from there on."""
    pieces: list[list[Run]] = [[]]
    current: tuple[str, ...] = ()
    for run in runs:
        key = run.layout.key if run.layout.identity else ()
        if key and current and key != current:
            pieces.append([])
        current = key or current
        pieces[-1].append(run)
    return pieces


def fold(runs: Sequence[Run], *, is_upsert: bool = False) -> KeyedNet | MultisetNet:
    """Return the net change of runs that are not inserts alone."""
    if len(split_by_key(runs)) > 1:
        raise ColumnMissing("its replica identity changed among changes that are staged together")
    keys = [run.layout.key for run in runs if run.layout.identity]
    key = next(filter(None, keys), ())
    if key:
        return _fold_keyed(runs, key, is_upsert=is_upsert)
    if is_upsert:
        raise ColumnMissing("its records have no key, so that no row can be told from another")
    return fold_multiset(runs)


def _fold_keyed(  # noqa: C901, PLR0912  the loop that every change goes through: no calls in it
    runs: Sequence[Run], key: tuple[str, ...], *, is_upsert: bool
) -> KeyedNet:
    if len(runs) == 1 and (only := runs[0].latest(key)) is not None:
        return KeyedNet(key, UpdatedRows(runs[0].layout, only), (), is_upsert)
    rows: dict[Key, RowState] = {}
    removed: list[Key] = []
    for run in runs:
        layout = run.layout
        is_full = layout.is_full
        old_of = layout.old_key(key)
        new_of = layout.new_key(key) if layout.columns else None
        latest = run.latest(key)
        for change in run.changes if latest is None else latest.values():
            action = change[0]
            if action == INSERT and new_of is not None:
                new = new_of(change)
                if new in rows:
                    raise unreadable("two rows of a table have the same key")
                rows[new] = RowState(None, layout, change)
                continue
            if old_of is None:
                raise unreadable("a change does not say which row it changes")
            old = old_of(change)
            if action == UPDATE and new_of is not None:
                state = rows.get(old)
                new = new_of(change)
                if new != old:
                    if is_upsert and new in rows:
                        # It came before: the row has moved already.
                        removed.append(old)
                        rows.pop(old, None)
                        rows[new].lay_over(layout, change)
                    else:
                        _move(rows, old, new, RowState(old, layout, change))
                elif state is None:
                    rows[old] = RowState(old, layout, change)
                elif is_full:
                    state.layout, state.change, state.older = layout, change, ()
                else:
                    state.lay_over(layout, change)
            elif action == DELETE:
                state = rows.pop(old, None)
                old_key = old if state is None else state.old_key
                if old_key is not None:
                    removed.append(old_key)
            else:
                raise unreadable("a change of an unknown kind")
    return KeyedNet(key, rows, removed, is_upsert)


def _move(rows: dict[Key, RowState], old: Key, new: Key, moved: RowState) -> None:
    if new in rows:
        raise unreadable("two rows of a table have the same key")
    state = rows.pop(old, None)
    if state is None:
        rows[new] = moved
    else:
        state.lay_over(moved.layout, moved.change)
        rows[new] = state


def fold_multiset(runs: Sequence[Run]) -> MultisetNet:
    """Return how many more or fewer there are of each row."""
    counts: Counter[Change] = Counter()
    columns = next(
        (run.layout.columns or run.layout.identity for run in runs if run.layout.is_full),
        runs[0].layout.identity or runs[0].layout.columns,
    )
    for run in runs:
        layout = run.layout
        for change in run.changes:
            action = change[0]
            old: dict[str, bytes] = {}
            if action != INSERT:
                old = dict(zip(layout.identity, layout.old_values(change), strict=True))
                counts[_row(old, columns)] -= 1
            if action != DELETE:
                new = dict(zip(layout.columns, layout.values(change), strict=True))
                counts[_row(old | new, columns)] += 1
    return MultisetNet(columns, counts)


def _row(values: dict[str, bytes], columns: tuple[str, ...]) -> Change:
    try:
        return tuple([values[name] for name in columns])
    except KeyError as exc:
        raise unreadable("a change has not all columns of its table") from exc
