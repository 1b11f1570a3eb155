"""The whole way: tables copied under one snapshot into shadows, which then take their places.

The tables are parked first, so that replay keeps their changes in order from before the snapshot
on. What waits then is either visible in the snapshot, and in the copy, or not: the snapshot that is
recorded with each table tells the two apart when the changes are applied.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from pgrepl.basebackup.post_data import analyze
from pgrepl.basebackup.report import Watcher
from pgrepl.basebackup.rows.workers import CopyWorkers, start_copy_workers
from pgrepl.basebackup.snapshot import Keeper, SnapshotStart, keep_new_snapshot
from pgrepl.catalog.tables import SourceTable, read_plain_columns
from pgrepl.errors import (
    PgreplError,
    SourceChanged,
    SourceError,
    TargetError,
    TargetUnavailable,
)
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.advisory_locks import find_pids
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.tables import read_publications
from pgrepl.replayer.target_table import Tables
from pgrepl.resync.joining.join import Join, check_received, publish
from pgrepl.resync.locking import lock_patiently
from pgrepl.resync.open_transactions import await_commits
from pgrepl.resync.overtaken import overtaken
from pgrepl.resync.sides import Sides, Whole
from pgrepl.resync.slot import check_slot
from pgrepl.resync.tables import Choosing
from pgrepl.resync.unsent_writers import await_unsent
from pgrepl.resync.waiting import TOLD_AFTER_S
from pgrepl.resync.whole.merge import merge_shadow
from pgrepl.resync.whole.restructured_roots import Remakes, families
from pgrepl.resync.whole.rows import RowCopy
from pgrepl.resync.whole.shadow import count_rows, drop_shadow, make_shadow, shadow_place
from pgrepl.store.parked import find_followers, park_for_resync
from pgrepl.store.progress.shard_progress import take_positions
from pgrepl.store.resync.joins import hidden_name
from pgrepl.store.resync.resync_chunks import remove_chunks
from pgrepl.store.resync.running_resyncs import (
    set_resync_state,
    set_structure,
    start_resync,
)
from pgrepl.store.rules import check_current
from pgrepl.store.tables.copy_work import (
    remove_parts,
)
from pgrepl.store.tables.places import read_places
from pgrepl.store.tables.source_tables import add_joining_table, begin_resync, finish_resync
from pgrepl.store.tables.unsent import Unsent, record_unsent

__all__ = ["WholeResync"]

logger = logging.getLogger(__name__)

_WAIT_POLL_S = 0.1


class WholeResync:
    """Tables of one source that are copied under one snapshot."""

    def __init__(self, sides: Sides, choosing: Choosing, watcher: Watcher) -> None:
        """Begin with what was chosen."""
        self._sides = sides
        self._endpoint = sides.endpoint
        self._target = sides.target
        self._options = sides.options
        self._choosing = choosing
        self._watcher = watcher
        #: New tables, in the order in which they are shown.
        self._joins: list[Join] = []
        self._remakes = Remakes(sides, choosing)

    def run(self, wholes: Sequence[Whole]) -> None:
        """Copy the tables and put the rows in their places; what waits is not applied yet."""
        with translated(self._endpoint, "cannot go on"):
            filled = self._take_up_join(wholes)
            unshown = [(self._joins[0], filled)] if filled else []
            uncopied = self._find_uncopied(wholes, filled)
            if uncopied:
                if unshown and not self._is_any_remade(wholes):
                    # What joins now may refer to them.
                    self._show(*unshown.pop())
                self._copy(uncopied)
                first = [whole for whole in uncopied if whole.resync.is_first]
                unshown += [(self._joins[-1], first)] if first else []
            self._watcher.begin("swap")
            check_slot(self._sides)
            left = [whole for whole in wholes if whole.resync.state != "catching up"]
            # New partitions are attached to a table that has its columns.
            late = [sql for join in self._joins for sql in join.late]
            self._remakes.swap(left, self._note_swapped, late)
            for join, tables in unshown:
                self._show(join, tables)
            for family in families(
                w for w in left if not w.resync.is_first and not self._remakes.find(w.table)
            ):
                self._swap(family)
        with translated(self._endpoint, "cannot analyze the tables"):
            keys = [whole.table.key for whole in wholes]
            places = read_places(self._target, self._sides.source_id)
            analyze(self._target, self._endpoint, keys, places, 1)

    def finish(self) -> None:
        """Set the sequences of new tables, which are caught up now."""
        with translated(self._endpoint, "cannot set the sequences"):
            for join in self._joins:
                join.set_sequences()

    def _find_uncopied(self, wholes: Sequence[Whole], filled: Sequence[Whole]) -> Sequence[Whole]:
        """Return the tables that no earlier run has copied, or whose rows are of no use now."""
        copied = [w for w in wholes if not w.resync.is_first and self._has_rows(w)]
        useful = [*self._remakes.take_up(wholes, copied), *filled]
        return [w for w in wholes if w.resync.state != "catching up" and w not in useful]

    def _is_any_remade(self, wholes: Sequence[Whole]) -> bool:
        return any(self._choosing.is_remade(whole.table) for whole in wholes)

    def _take_up_join(self, wholes: Sequence[Whole]) -> Sequence[Whole]:
        """Go on with new tables that earlier runs filled, with all their partitions; return them.

        Each has the snapshot under which it was filled.
        """
        first = [w for w in wholes if w.resync.is_first and w.resync.state != "catching up"]
        filled = _whole_families(first, self._has_rows)
        if not filled:
            return ()
        keeper = keep_new_snapshot(self._sides.source.endpoint)
        with closing(keeper.connection):
            tables = [whole.table for whole in filled]
            with self._sides.saying_for_whom(keeper.connection):
                keeper.lock(tables, self._options.wait_s)
            self._remakes.read(keeper.connection, tables, ())
            filled = _whole_families(
                filled, lambda w: self._remakes.structure(w.table) == w.resync.structure
            )
            is_all = len(filled) == len(first)
            if not filled or (not is_all and self._is_any_remade(wholes)):
                # A new partition cannot have its name before its root has its columns.
                return ()
            starts = {
                (w.table.root_schema, w.table.root_name): SnapshotStart(
                    w.resync.lsn or Lsn(0), w.resync.snapshot
                )
                for w in filled
            }
            try:
                join = Join(self._sides, keeper, [w.table for w in filled], filled_at=starts)
            except TargetError:
                if is_all:
                    raise
                # They need others that are not there yet.
                return ()
        self._joins.append(join)
        return filled

    def _has_rows(self, whole: Whole) -> bool:
        """Whether an earlier run has copied all rows, and they are there still."""
        resync = whole.resync
        if resync.state != "copied":
            return False
        place = shadow_place(resync.resync_id)
        if resync.is_first:
            schema = self._choosing.places.schemas.get(resync.schema_name, "")
            place = schema, hidden_name(whole.table.oid)
        return count_rows(self._target, place) == resync.row_count

    def _copy(self, wholes: Sequence[Whole]) -> None:
        workers = start_copy_workers(
            self._sides.config.spark, self._options.jobs, is_local=self._options.is_local
        )
        first = [whole.table for whole in wholes if whole.resync.is_first]
        try:
            self._watcher.begin("waiting")
            publish(self._sides, first)
            with self._sides.saying_for_whom(self._target):
                self._park(wholes)
            reach("resync.parked")
            self._await_replay()
            await_commits(
                self._sides.source_session,
                self._sides.source.endpoint,
                self._options.wait_s,
                self._options.pause,
            )
            check_received(self._sides, first)
            await_unsent(self._sides, [whole.table for whole in wholes])
            reach("resync.waited")
            self._copy_at_once(wholes, first, workers)
        finally:
            workers.stop()
        reach("resync.copied")

    def _copy_at_once(
        self, wholes: Sequence[Whole], first: Sequence[SourceTable], workers: CopyWorkers
    ) -> None:
        """Copy tables under a snapshot of this moment."""
        tables = [whole.table for whole in wholes]
        keeper = keep_new_snapshot(self._sides.source.endpoint)
        with closing(keeper.connection):
            try:
                with self._sides.saying_for_whom(keeper.connection):
                    keeper.lock(tables, self._options.wait_s)
                # A migration may have been quicker than the lock.
                self._choosing.check_columns(tables)
                self._prepare(keeper, first, [t for t in tables if self._choosing.is_remade(t)])
                self._copy_rows(keeper, wholes, workers)
            except SourceError as exc:
                if isinstance(exc, SourceChanged) or not self._choosing.find_changed(tables):
                    raise
                # A schema is renamed whatever locks its tables have.
                raise SourceChanged(exc.message, hint=exc.hint) from exc

    def _park(self, wholes: Sequence[Whole]) -> None:
        """Let replay leave the tables alone from its next transaction on."""
        unsent: Mapping[tuple[str, str], Unsent] = {}
        if self._sides.source.plugin == "pgoutput":
            with translated(self._sides.source.endpoint, "cannot read the publications"):
                unsent = read_publications(self._sides.source_session, self._sides.source).unsent(
                    self._sides.source.selection
                )
        source_id = self._sides.source_id
        keys = {whole.table.key for whole in wholes}
        with translated(self._endpoint, "cannot park the tables"), self._target.transaction():
            self._target.execute(f"set local lock_timeout = '{self._options.wait_s}s'")
            # No DDL is half applied now, and what comes next sees that the tables are parked.
            take_positions(self._target, source_id)
            for whole in wholes:
                table = whole.table
                if not start_resync(self._target, whole.resync.resync_id, table.key, "whole"):
                    raise overtaken(self._sides.source.endpoint, table)
                if whole.resync.is_first:
                    add_joining_table(
                        self._target, source_id, table.key, table.definition, table.oid
                    )
                park_for_resync(self._target, source_id, whole.table.key)
                begin_resync(self._target, source_id, whole.table.key)
                # Parked, it is none any more whose changes are applied with regard to chunks.
                remove_chunks(self._target, whole.resync.resync_id)
            record_unsent(
                self._target,
                source_id,
                {name: count for name, count in unsent.items() if name in keys},
            )

    def _await_replay(self) -> None:
        """Wait for transactions of replay that may not know yet that the tables are parked."""
        source_id = self._sides.source_id
        before = find_followers(self._target, source_id)
        begin, is_told = time.monotonic(), False
        while left := before & find_followers(self._target, source_id):
            waited_s = time.monotonic() - begin
            if waited_s > TOLD_AFTER_S and not is_told:
                is_told = True
                pids = ", ".join(map(str, find_pids(self._target, left)))
                logger.warning(
                    "%s: the resync waits for a batch of replay, process %s", self._endpoint, pids
                )
            if waited_s > self._options.wait_s:
                raise TargetUnavailable(
                    f"{self._endpoint}: replay is at work on a batch for {self._options.wait_s} s",
                    hint="Run the same command again when that transaction is over, or raise"
                    " --wait.",
                )
            self._options.pause(_WAIT_POLL_S)

    def _copy_rows(self, keeper: Keeper, wholes: Sequence[Whole], workers: CopyWorkers) -> None:
        with translated(self._endpoint, "cannot read the columns"):
            tables = {whole.table.key: self._as_on_target(whole.table) for whole in wholes}

        def make(whole: Whole) -> None:
            table, resync_id = tables[whole.table.key], whole.resync.resync_id
            remake = self._remakes.find(table)
            if remake is not None:
                remake.make_shadow(resync_id, table)
            elif not whole.resync.is_first:
                make_shadow(self._target, resync_id, self._place(table), table.columns)
            set_structure(self._target, resync_id, self._remakes.structure(table))

        RowCopy(
            sides=self._sides,
            watcher=self._watcher,
            keeper=keeper,
            wholes=wholes,
            tables=tables,
            places={
                whole.table.key: self._place(whole.table)
                if whole.resync.is_first
                else shadow_place(whole.resync.resync_id)
                for whole in wholes
            },
        ).run(workers, make)

    def _place(self, table: SourceTable) -> tuple[str, str]:
        """Return where the copy of a table is: while it is new, out of sight."""
        if self._joins and self._choosing.is_first(table):
            return self._joins[-1].place(table)
        place = self._choosing.places.find(table.key)
        if place is None:
            raise AssertionError("the schema of a table that is copied again is there")
        return place

    def _as_on_target(self, table: SourceTable) -> SourceTable:
        """Add the generated columns that are plain ones there: they take the source's values."""
        remake = self._remakes.find(table)
        if remake is not None:
            return remake.as_on_target(table)
        place = self._place(table)
        plain = read_plain_columns(self._target, [place])
        return table.with_generated(plain.get(place, frozenset()))

    # --- into place -----------------------------------------------------------------------------

    def _prepare(
        self, keeper: Keeper, first: Sequence[SourceTable], remade: Sequence[SourceTable]
    ) -> None:
        """Make tables that the target never had, out of sight, and what others have to have."""
        if not first and not remade:
            return
        self._joins.append(Join(self._sides, keeper, first, remade))
        with translated(self._endpoint, "cannot make the tables"), self._target.transaction():
            self._joins[-1].make()
        with translated(self._sides.source.endpoint, "cannot read the structure"):
            self._remakes.read(keeper.connection, first, remade)
        reach("resync.made")

    def _show(self, join: Join, wholes: Sequence[Whole]) -> None:
        """Give new tables their names and keys, in one transaction."""
        with translated(self._endpoint, "cannot make the keys"), self._target.transaction():
            join.show()
            for whole in wholes:
                self._note_swapped(whole)
            reach("resync.before_swap_commit")
        reach("resync.swapped")

    def _note_swapped(self, whole: Whole) -> None:
        """Record that a table has the rows that were copied."""
        resync_id = whole.resync.resync_id
        check_current(
            self._target, self._sides.source_id, self._sides.source.name, self._sides.source.rules
        )
        finish_resync(self._target, self._sides.source_id, whole.table.key, resync_id)
        set_resync_state(self._target, resync_id, "catching up")
        remove_parts(self._target, self._sides.source_id, [whole.table.key])
        drop_shadow(self._target, resync_id)

    def _swap(self, family: Sequence[Whole]) -> None:
        """Put the rows of shadows in the places of tables', in one transaction those of a root.

        A row that has moved between partitions is seen once.
        """
        tables = [(whole, self._as_on_target(whole.table)) for whole in family]
        first = family[0].table

        def swap() -> None:
            for whole, table in tables:
                self._put_rows(whole, table)
            reach("resync.before_swap_commit")

        with translated(self._endpoint, f"cannot put the rows of {first} in place"):
            places = sorted(self._place(table) for _, table in tables)
            lock_patiently(self._target, self._endpoint, places, swap, self._options)
        reach("resync.swapped")

    def _put_rows(self, whole: Whole, table: SourceTable) -> None:
        known = Tables(self._target, self._sides.source_id, Lsn(0), ignores_parking=True)
        shape = known.look_up(whole.table.key).shape
        if shape is None:
            raise PgreplError(f"the copy of {table} does not exist any more")
        shadow = shadow_place(whole.resync.resync_id)
        merged = merge_shadow(self._target, shape, shadow, table.columns)
        self._note_swapped(whole)
        logger.info(
            "rows put in place",
            extra={"table": str(table), "removed": merged.removed, "added": merged.added},
        )


def _whole_families(wholes: Iterable[Whole], holds: Callable[[Whole], bool]) -> Sequence[Whole]:
    """Return the tables for which something holds, and for all partitions of their root too."""
    return [w for family in families(wholes) if all(map(holds, family)) for w in family]
