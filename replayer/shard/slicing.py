"""Which slice of a table a change belongs to. Pure.

A slice has all changes of its rows, whichever chunk they are in, because it goes by the key alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from zlib import crc32

from pgrepl.decoding.changes import DELETE, INSERT, UPDATE, Change, Key, Run, TableChanges
from pgrepl.decoding.shape import Shape
from pgrepl.native import native

__all__ = ["has_fixed_keys", "leave_out", "slice_changes"]


def has_fixed_keys(shape: Shape, changes: TableChanges) -> bool:
    """Whether every change says its row by the table's key, and none moves a row to another."""
    return bool(shape.key) and all(_has_fixed_keys(shape.key, run) for run in changes.runs)


def slice_changes(key: Sequence[str], changes: TableChanges, count: int) -> list[TableChanges]:
    """Deal changes whose keys are fixed to slices; some may have none."""
    slices = [_empty(changes) for _ in range(count)]
    for run in changes.runs:
        for own, mine in zip(slices, _deal(key, run, count), strict=True):
            if mine:
                own.runs.append(Run(run.layout, mine))
                own.count += len(mine)
    return slices


def leave_out(
    key: Sequence[str], changes: TableChanges, count: int, applied: Collection[int]
) -> TableChanges:
    """Return changes without those of some slices."""
    left = _empty(changes)
    for run in changes.runs:
        keys = zip(run.changes, _keys(key, run), strict=True)
        mine = [change for change, own in keys if _number(own) % count not in applied]
        if mine:
            left.runs.append(Run(run.layout, mine))
            left.count += len(mine)
    return left


def _deal(key: Sequence[str], run: Run, count: int) -> list[list[Change]]:
    """Return the changes of each slice."""
    layout = run.layout
    if native is not None and layout.columns and DELETE not in run.actions:
        return native.deal(run.changes, layout.new_key_places(key), count)
    dealt: list[list[Change]] = [[] for _ in range(count)]
    numbers = map(_number, _keys(key, run))
    for change, number in zip(run.changes, numbers, strict=True):
        dealt[number % count].append(change)
    return dealt


def _empty(changes: TableChanges) -> TableChanges:
    return TableChanges(changes.names, changes.shape, changes.encoding)


def _number(key: Key) -> int:
    # The same in every process and version, unlike Python's own.
    return crc32(key if isinstance(key, bytes) else b"\t".join(key))


def _keys(key: Sequence[str], run: Run) -> Iterable[Key]:
    """Return the keys of rows, which changes leave as they are."""
    layout = run.layout
    old_of = layout.old_key(key)
    if not layout.columns and old_of is not None:
        return map(old_of, run.changes)
    new_of = layout.new_key(key)
    if old_of is None or DELETE not in run.actions:
        return map(new_of, run.changes)
    return [old_of(c) if c[0] == DELETE else new_of(c) for c in run.changes]


def _has_fixed_keys(key: Sequence[str], run: Run) -> bool:
    layout, actions = run.layout, run.actions
    if layout.identity and layout.key != tuple(key):
        return False
    old_of = layout.old_key(key)
    if not actions <= {INSERT, UPDATE, DELETE} or (old_of is None and actions != {INSERT}):
        return False
    if not layout.columns:
        return actions == {DELETE}
    if not set(key) <= set(layout.columns):
        return False
    old = layout.old_key_places(key)
    return old is None or run.keeps_keys(key, old)
