"""Sessions beside a task's own that apply slices of its big tables at the same time.

A server process uses one core, and a table with most of the changes is one process's work. Why
that is exact is said in ``pgrepl.store.progress.applied_slices``. Whenever something is not as
usual the task begins again and does all of it in one session.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from pgrepl.config.dsn import Endpoint
from pgrepl.decoding.changes import TableChanges
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.session import lend_session
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.slicing import has_fixed_keys, slice_changes
from pgrepl.replayer.shard.together import apply_plainly
from pgrepl.replayer.target_table import TableName
from pgrepl.store.parked import follow_parking
from pgrepl.store.progress.applied_slices import (
    AppliedSlice,
    add_slice,
    can_be_sliced,
    current_transaction,
    join_transaction,
    remove_slices,
)

__all__ = ["Helpers", "NotSliced", "open_helpers"]

#: A table that could not be applied in slices is not tried again for this time.
_WHOLE_S = 60.0

_whole_until: dict[tuple[str, TableName], float] = {}


class NotSliced(Exception):
    """A table cannot be applied in slices, and nothing of the task is."""


class _Task(Protocol):
    """What is to be known of a task."""

    @property
    def target(self) -> Endpoint: ...
    @property
    def settings(self) -> ReplaySettings: ...
    @property
    def source(self) -> str: ...
    @property
    def source_id(self) -> int: ...
    @property
    def shard(self) -> int: ...
    @property
    def from_seq(self) -> int: ...
    @property
    def to_seq(self) -> int: ...
    @property
    def slice_count(self) -> int: ...


@dataclass
class Helpers:
    """The sessions that apply the slices of a task but the first, opened when they are needed."""

    task: _Task
    writer: Connection
    _stack: ExitStack
    _sessions: list[Connection] = field(default_factory=list)
    _pool: ThreadPoolExecutor | None = None
    #: Whether a table is applied in slices: decided when it is met first, for all chunks.
    _is_sliced: dict[TableName, bool] = field(default_factory=dict)

    def apply(self, changes: TableChanges) -> bool:
        """Apply the changes of a table in slices; False: it is not one for that.

        Raises
        ------
        NotSliced
            when it cannot be done after all.

        """
        name = changes.names
        if name not in self._is_sliced:
            self._is_sliced[name] = self._can_slice(changes)
        if not self._is_sliced[name]:
            return False
        shape = changes.shape
        if shape is None or changes.problem or not has_fixed_keys(shape, changes):
            raise self._give_up(name)
        self._open()
        first, *others = slice_changes(shape.key, changes, self.task.slice_count)
        running: list[Future[bool]] = []
        if self._pool is not None:
            running = [
                self._pool.submit(_apply_slice, session, own, self.task.settings)
                for session, own in zip(self._sessions, others, strict=True)
            ]
        try:
            is_done = _apply_slice(self.writer, first, self.task.settings)
        finally:
            # Whatever came of them, none goes on behind our back.
            outcomes = [(future.exception(), future) for future in running]
        if not is_done or any(error or not future.result() for error, future in outcomes):
            raise self._give_up(name)
        return True

    def leave_whole(self, names: Iterable[TableName]) -> None:
        """Apply nothing of some tables in slices: the task does it in its own session.

        Raises
        ------
        NotSliced
            when something of one is.

        """
        for name in names:
            if self._is_sliced.setdefault(name, False):
                raise self._give_up(name)

    def commit(self) -> None:
        """Record the slices; the sessions commit when the block of ``open_helpers`` ends."""
        task = self.task
        sliced = [name for name, is_sliced in self._is_sliced.items() if is_sliced]
        for number, session in enumerate(self._sessions, 1):
            for schema, table in sliced:
                applied = AppliedSlice(schema, table, number, task.slice_count, task.to_seq)
                add_slice(session, task.source_id, task.shard, applied, from_seq=task.from_seq)
        if self._sessions:
            reach("replayer.slices_applied")

    def forget(self) -> None:
        """Remove what is recorded, in the transaction that moves the shard."""
        if self._sessions:
            reach("replayer.slices_committed")
            remove_slices(self.writer, self.task.source_id, self.task.shard)

    def _can_slice(self, changes: TableChanges) -> bool:
        task, shape = self.task, changes.shape
        size = sum(len(run.changes) for run in changes.runs)
        return (
            task.slice_count > 1
            and size >= task.settings.slice_changes
            and shape is not None
            and changes.problem is None
            and _whole_until.get((task.source, changes.names), 0.0) < time.monotonic()
            and has_fixed_keys(shape, changes)
            and can_be_sliced(
                self.writer,
                task.source_id,
                changes.names,
                shape.identifier.as_string(self.writer),
                shape.key,
            )
        )

    def _open(self) -> None:
        """Open the sessions, each in a transaction, unless they are."""
        if self._sessions:
            return
        task = self.task
        transaction = current_transaction(self.writer)
        for number in range(1, task.slice_count):
            session = self._stack.enter_context(lend_session(task.target, task.settings, number))
            self._stack.enter_context(session.transaction())
            if not join_transaction(session, task.source_id, task.shard, transaction):
                raise NotSliced
            follow_parking(session, task.source_id)
            self._sessions.append(session)
        self._pool = self._stack.enter_context(ThreadPoolExecutor(task.slice_count - 1))

    def _give_up(self, name: TableName) -> NotSliced:
        _whole_until[self.task.source, name] = time.monotonic() + _WHOLE_S
        return NotSliced(name)


@contextmanager
def open_helpers(task: _Task, writer: Connection) -> Iterator[Helpers]:
    """Lend sessions to a task; what they did is committed at the end, unless it is an exception."""
    with ExitStack() as stack:
        yield Helpers(task, writer, stack)


def _apply_slice(session: Connection, changes: TableChanges, settings: ReplaySettings) -> bool:
    return not changes.runs or apply_plainly(session, changes, settings)
