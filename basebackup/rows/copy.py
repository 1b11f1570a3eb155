"""Copy rows of tables under a snapshot: for a new copy, and for one that goes on."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from pgrepl.basebackup import copy_state
from pgrepl.basebackup.report import Watcher
from pgrepl.basebackup.rows.parts import plan_parts
from pgrepl.basebackup.rows.task import CopyTask
from pgrepl.basebackup.rows.workers import CopyWorkers, copy_parts
from pgrepl.basebackup.snapshot import Keeper
from pgrepl.catalog.tables import SourceTable, read_plain_columns
from pgrepl.config.dsn import Endpoint
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.tables.copy_work import read_progress
from pgrepl.store.tables.source_tables import finish_tables

__all__ = ["RowCopy"]

logger = logging.getLogger(__name__)

_POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCopy:
    """What is copied from where to where."""

    source: Endpoint
    endpoint: Endpoint
    target: Connection
    source_id: int
    target_schemas: Mapping[str, str]
    watcher: Watcher

    def run(self, keeper: Keeper, tables: Sequence[SourceTable], workers: CopyWorkers) -> None:
        """Copy the tables."""
        self.watcher.begin("data")
        with translated(self.endpoint, "cannot read the columns"):
            tables = self._as_on_target(tables)
        task = CopyTask(
            source=self.source,
            target=self.endpoint,
            run_id=uuid4(),
            snapshot=keeper.snapshot,
            tables={table.key: table for table in tables},
            places=self._places(tables),
        )
        parts = plan_parts(tables, keeper.sizes(tables), workers.jobs)
        with translated(self.endpoint, "cannot plan the copy"):
            copy_state.begin_copying(
                self.target,
                self.source_id,
                run_id=task.run_id,
                parts=parts,
                tables=tables,
                target_schemas=self.target_schemas,
                start=keeper.start,
            )
        reach("basebackup.copy_planned")
        logger.info("copying begins", extra={"parts": len(parts), "jobs": workers.jobs})
        copy_parts(workers, task, parts, lambda: self._poll(keeper, tables), _POLL_S)

    def _as_on_target(self, tables: Sequence[SourceTable]) -> Sequence[SourceTable]:
        """Add the generated columns that are plain ones there: they take the source's values."""
        places = self._places(tables)
        plain = read_plain_columns(self.target, places.values())
        return [table.with_generated(plain.get(places[table.key], frozenset())) for table in tables]

    def _places(self, tables: Sequence[SourceTable]) -> Mapping[tuple[str, str], tuple[str, str]]:
        return {table.key: (self.target_schemas[table.schema], table.name) for table in tables}

    def _poll(self, keeper: Keeper, tables: Sequence[SourceTable]) -> None:
        with translated(self.endpoint, "cannot follow the copy"):
            with self.target.transaction():
                ready_count = finish_tables(
                    self.target, self.source_id, [table.key for table in tables]
                )
                # Last: whatever is ready now was copied while the keeper held its locks.
                keeper.check()
            if ready_count:
                reach("basebackup.table_ready")
            self.watcher.show(read_progress(self.target, self.source_id))
