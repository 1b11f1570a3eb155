"""What a task that died has applied of big tables already: slices, whose rest follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pgrepl.decoding.changes import TableChanges
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.shard.slicing import leave_out
from pgrepl.replayer.target_table import TableName
from pgrepl.store.parked import keep_parked
from pgrepl.store.progress.applied_slices import read_slices, remove_slices
from pgrepl.store.progress.shard_progress import Fenced
from pgrepl.store.tables.table_marks import mark_resync

__all__ = ["Ahead", "find_ahead", "finish_ahead", "rest_of"]

_PART_APPLIED = "it was parked when a part of its changes was applied already"


class _Task(Protocol):
    """What is to be known of a task."""

    @property
    def source_id(self) -> int: ...
    @property
    def shard(self) -> int: ...
    @property
    def to_seq(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is applied of a table already."""

    slice_count: int
    slices: set[int]


def find_ahead(connection: Connection, task: _Task) -> Mapping[TableName, Ahead]:
    """Return the tables of which a task that died has applied slices already."""
    found: dict[TableName, Ahead] = {}
    for applied in read_slices(connection, task.source_id, task.shard):
        if applied.to_seq != task.to_seq:
            # They are of another batch than was planned.
            raise Fenced
        name = applied.schema, applied.table
        found.setdefault(name, Ahead(applied.slice_count, set())).slices.add(applied.slice)
    return found


def finish_ahead(connection: Connection, task: _Task, ahead: Mapping[TableName, Ahead]) -> None:
    """Forget slices that were ahead, now that the rest of their tables is there."""
    for name in ahead:
        # Those that wait have been applied in part.
        if keep_parked(connection, task.source_id, name):
            mark_resync(connection, task.source_id, name, _PART_APPLIED)
    remove_slices(connection, task.source_id, task.shard)


def rest_of(changes: TableChanges, ahead: Mapping[TableName, Ahead]) -> TableChanges | None:
    """Return changes without those that are applied already; None when there are none."""
    known = ahead.get(changes.names)
    if known is None or changes.shape is None or changes.problem is not None:
        return changes
    rest = leave_out(changes.shape.key, changes, known.slice_count, known.slices)
    return rest if rest.runs else None
