"""Rows of tables read in parallel under one snapshot, and put where nobody looks.

A table is recorded as copied as soon as it is: whoever goes on after a kill keeps it, placed in the
stream by the snapshot that is recorded with it. Of a table that is not whole nothing can be kept:
the snapshot ended with its session, and blocks read under another one may have a row twice, or not
at all, that has moved between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from pgrepl.basebackup.report import Watcher
from pgrepl.basebackup.rows.parts import plan_parts
from pgrepl.basebackup.rows.task import CopyTask
from pgrepl.basebackup.rows.workers import CopyWorkers, copy_parts
from pgrepl.basebackup.snapshot import Keeper
from pgrepl.catalog.tables import SourceTable
from pgrepl.errors import PgreplError, TargetError
from pgrepl.failpoint import reach
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.report import CancelledError
from pgrepl.resync.sides import Sides, Whole
from pgrepl.store.resync.running_resyncs import is_cancelled, set_copied, set_snapshot
from pgrepl.store.tables.copy_work import (
    add_parts,
    read_parts_done,
    read_progress,
    remove_parts,
)

__all__ = ["RowCopy"]

_POLL_S = 1.0

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCopy:
    """Tables of one run that are copied under one snapshot."""

    sides: Sides
    watcher: Watcher
    keeper: Keeper
    wholes: Sequence[Whole]
    #: By their names: the tables with the columns that their copies have, and where rows go.
    tables: Mapping[_Name, SourceTable]
    places: Mapping[_Name, _Name]
    #: Those that are recorded as copied.
    _copied: set[_Name] = field(default_factory=set)

    def run(self, workers: CopyWorkers, make_shadow: Callable[[Whole], None]) -> None:
        """Copy all rows; ``make_shadow`` makes where those of a table go, in a transaction."""
        self.watcher.begin("data")
        parts = plan_parts(
            self.tables.values(), self.keeper.sizes(self.tables.values()), workers.jobs
        )
        rate = self.sides.options.max_rate
        task = CopyTask(
            source=self.sides.source.endpoint,
            target=self.sides.endpoint,
            run_id=uuid4(),
            snapshot=self.keeper.snapshot,
            tables=self.tables,
            places=self.places,
            max_rate=None if rate is None else rate / min(workers.jobs, len(parts)),
        )
        target, source_id, start = self.sides.target, self.sides.source_id, self.keeper.start
        with translated(self.sides.endpoint, "cannot plan the copy"), target.transaction():
            # Of a run that was killed; waits for its tasks that are still at work.
            remove_parts(target, source_id, self.tables)
            for whole in self.wholes:
                make_shadow(whole)
                resync_id = whole.resync.resync_id
                set_snapshot(target, resync_id, snapshot=start.snapshot, lsn=start.lsn)
            add_parts(
                target,
                source_id,
                task.run_id,
                ((p.schema, p.table, p.first_block, p.end_block, p.size_bytes) for p in parts),
            )
        reach("resync.planned")
        copy_parts(workers, task, parts, self._poll, _POLL_S)
        missing = self.tables.keys() - self._copied
        if missing:
            raise PgreplError(f"table {self.tables[min(missing)]} was not copied; a bug in pgrepl")
        with translated(self.sides.endpoint, "cannot record the copy"):
            remove_parts(target, source_id, self.tables)

    def _poll(self) -> None:
        """Record what is copied, show how far it is, and look for whether to go on."""
        self._record_copied()
        self._check_cancelled()
        self.sides.options.pause(0.0)
        with translated(self.sides.endpoint, "cannot follow the copy"):
            self.watcher.show(
                [
                    progress
                    for progress in read_progress(self.sides.target, self.sides.source_id)
                    if (progress.schema_name, progress.table_name) in self.tables
                ]
            )

    def _record_copied(self) -> None:
        target, source_id = self.sides.target, self.sides.source_id
        with translated(self.sides.endpoint, "cannot record the copy"), target.transaction():
            done = read_parts_done(target, source_id, self.tables.keys() - self._copied)
            # Whatever is copied now was copied while the keeper held its locks.
            self.keeper.check()
            for whole in self.wholes:
                if whole.table.key in done:
                    rows, size = done[whole.table.key]
                    set_copied(target, whole.resync.resync_id, rows=rows, bytes_=size)
        if done:
            self._copied.update(done)
            reach("resync.table_copied")

    def _check_cancelled(self) -> None:
        ids = [whole.resync.resync_id for whole in self.wholes]
        with translated(self.sides.endpoint, "cannot look for a request to cancel"):
            is_asked = is_cancelled(self.sides.target, ids)
        if is_asked is None:
            raise TargetError(
                f"{self.sides.endpoint}: what is noted of the resync does not exist any more",
                hint="pgrepl status shows what is under way; run the same command again.",
            )
        if is_asked:
            raise CancelledError("the resync was cancelled")
