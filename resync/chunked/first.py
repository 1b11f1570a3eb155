"""A table that the target never had, copied in chunks: out of sight until all of it is there.

It is made with its keys under a name that nobody looks for; chunks and changes go there as they go
into a table that is live. When replay has passed the last chunk, it gets its own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from pgrepl.basebackup.post_data import analyze
from pgrepl.basebackup.snapshot import Keeper, SnapshotStart, keep_new_snapshot
from pgrepl.catalog.tables import SourceTable
from pgrepl.errors import SourceChanged
from pgrepl.failpoint import reach
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.chunked.chunk import ObstacleError
from pgrepl.resync.chunked.keys import find_key
from pgrepl.resync.chunked.obstacle import find_obstacle
from pgrepl.resync.joining.join import Join, check_received, publish
from pgrepl.resync.joining.late_keys import make_late_keys
from pgrepl.resync.joining.missing_keys import await_keys, note_awaited
from pgrepl.resync.overtaken import overtaken
from pgrepl.resync.sides import Sides
from pgrepl.resync.whole.restructure import Remake
from pgrepl.store.progress.shard_progress import take_positions
from pgrepl.store.resync.joins import drop_hidden, finish_join, hidden_name, set_hidden
from pgrepl.store.resync.resync_chunks import remove_chunks, set_chunk_key
from pgrepl.store.resync.running_resyncs import ResyncRow, set_structure, start_resync
from pgrepl.store.tables.places import read_places
from pgrepl.store.tables.source_tables import add_joining_table, begin_copies

__all__ = ["FirstCopy"]


class FirstCopy:
    """The making and the showing of one new table."""

    def __init__(self, sides: Sides, table: SourceTable, resync: ResyncRow) -> None:
        """Make nothing yet."""
        self._sides = sides
        self._table = table
        self._resync = resync
        self._join: Join | None = None

    def take_up(self) -> bool:
        """Go on with a table that an earlier run made; False: its structure is another by now."""
        sides = self._sides
        with translated(sides.source.endpoint, "cannot read the structure"):
            if self._fingerprint() != self._resync.structure:
                return False
        keeper = keep_new_snapshot(sides.source.endpoint)
        with closing(keeper.connection):
            self._join = Join(sides, keeper, [self._table], filled_at={}, has_keys=True)
        return True

    def begin(self) -> None:
        """Make the table under a hidden name, and have changes applied there from now on.

        Raises
        ------
        SourceChanged
            when DDL on the table was quicker.

        """
        sides, target = self._sides, self._sides.target
        publish(sides, [self._table])
        keeper = keep_new_snapshot(sides.source.endpoint)
        with closing(keeper.connection):
            # Until the copy is known no DDL on the table can commit: none is passed over.
            with sides.saying_for_whom(keeper.connection):
                keeper.lock([self._table], sides.options.wait_s)
            structure = self._check_structure(keeper)
            with translated(sides.endpoint, "cannot make the table"), target.transaction():
                drop_hidden(target, self._resync.resync_id)
            self._join = Join(sides, keeper, [self._table], has_keys=True)
            with translated(sides.endpoint, "cannot make the table"), target.transaction():
                self._make(self._join, keeper.start, structure)
        check_received(sides, [self._table])

    def _check_structure(self, keeper: Keeper) -> str:
        """Return a fingerprint of the structure, which is that of the snapshot and of now."""
        with translated(self._sides.source.endpoint, "cannot read the structure"):
            seen = Remake(self._sides, keeper.connection, [self._table]).fingerprint(self._table)
            if seen != self._fingerprint():
                raise SourceChanged(
                    f"{self._sides.source.endpoint}: table {self._table} was altered while the copy"
                    " began",
                    hint="Run the same command again.",
                )
        return seen

    def _fingerprint(self) -> str:
        return Remake(self._sides, self._sides.source_session, [self._table]).fingerprint(
            self._table
        )

    def _make(self, join: Join, start: SnapshotStart, structure: str) -> None:
        sides, target, table = self._sides, self._sides.target, self._table
        resync_id = self._resync.resync_id
        # Who applies changes of this source now knows nothing of the table.
        with sides.saying_for_whom(target):
            take_positions(target, sides.source_id)
        if not start_resync(target, resync_id, table.key, "chunked"):
            raise overtaken(sides.source.endpoint, table)
        join.make()
        remove_chunks(target, resync_id)
        add_joining_table(target, sides.source_id, table.key, table.definition, table.oid)
        begin_copies(
            *(target, sides.source_id, [table.key]), lsn=start.lsn, snapshot=start.snapshot
        )
        set_structure(target, resync_id, structure)
        set_hidden(target, resync_id, hidden_name(table.oid))
        key = find_key(sides.source_session, table.oid)
        set_chunk_key(target, resync_id, [column.name for column in key])
        obstacle = find_obstacle(sides.source_session, target, sides.row, table)
        if obstacle is not None:
            raise ObstacleError(table, obstacle)

    def show(self) -> None:
        """Give the table its name, inside the caller's transaction."""
        if self._join is None:
            raise AssertionError("a table is shown that was not made")
        self._join.show()
        # DDL could not make those while it was not there.
        await_keys(self._sides, [self._table.key])
        finish_join(self._sides.target, self._resync.resync_id)

    def finish(self) -> None:
        """Do what follows when it is there: statistics, sequences, foreign keys."""
        sides = self._sides
        reach("resync.joined")
        with translated(sides.endpoint, "cannot analyze the table"):
            places = read_places(sides.target, sides.source_id)
            keys: Sequence[tuple[str, str]] = [self._table.key]
            analyze(sides.target, sides.endpoint, keys, places, 1)
        if self._join is not None:
            with translated(sides.endpoint, "cannot set the sequences"):
                self._join.set_sequences()
        make_late_keys(sides)
        note_awaited(sides)
        make_late_keys(sides)
