"""Copy a table in chunks, one after the other, until it is caught up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from pgrepl.catalog.tables import SourceTable, read_tables
from pgrepl.ddl_capture.missed import is_behind
from pgrepl.errors import SourceChanged, TargetUnavailable
from pgrepl.failpoint import reach
from pgrepl.masking import set_salts
from pgrepl.postgres.advisory_locks import resync_lock, take_lock, try_lock
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.chunked.chunk import (
    Chunk,
    ChunkMaker,
    DdlAwaitedError,
    NotNowError,
    ObstacleError,
    RestartedError,
    check_applied,
)
from pgrepl.resync.chunked.ending import EndedError, Ending
from pgrepl.resync.chunked.first import FirstCopy
from pgrepl.resync.chunked.keys import find_key
from pgrepl.resync.chunked.obstacle import as_on_target, find_obstacle
from pgrepl.resync.chunked.pacing import FIRST_LIMIT, fitting_rows, most_bytes, next_limit
from pgrepl.resync.chunked.passing import Look, Passing
from pgrepl.resync.chunked.watermarks import Watermarks
from pgrepl.resync.open_transactions import await_commits
from pgrepl.resync.overtaken import overtaken
from pgrepl.resync.report import CancelledError
from pgrepl.resync.sides import Sides
from pgrepl.resync.slot import check_slot
from pgrepl.resync.unsent_writers import await_unsent
from pgrepl.resync.waiting import TOLD_AFTER_S
from pgrepl.store.progress.shard_progress import take_positions
from pgrepl.store.resync.resync_chunks import (
    LiveCopy,
    begin_live,
    restart_chunks,
    set_chunk_key,
)
from pgrepl.store.resync.running_resyncs import (
    Amount,
    ResyncRow,
    find_resync_now,
    read_amount,
    remove_resync,
    start_resync,
)
from pgrepl.store.rules import check_current

__all__ = ["ChunkedResync", "run_chunked"]

logger = logging.getLogger(__name__)

_POLL_S = 0.2
#: Who waits longer for a batch of replay says so.
_BATCH_S = 10.0
#: How often keys are read again when all ranges are there. A row whose key changes again and again,
#: faster than replay follows, would be read for ever.
_MOST_ROUNDS = 100
#: How long, and how often, it is tried to take the lock of the name that DDL gave the table.
_REFUSED_S = 3.0
_REFUSED_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedResync:
    """A table to copy in chunks, and the sessions that may be used for it."""

    sides: Sides
    table: SourceTable
    #: The row of ``replication.resync``, as it was when the run began; ``last_key`` says where an
    #: earlier run ended.
    resync: ResyncRow
    #: Is told after each chunk how far it is.
    show: Callable[[Amount], None] = lambda _: None


def run_chunked(work: ChunkedResync) -> tuple[str, str]:
    """Copy a table in chunks, from the last chunk of an earlier run on, until it is caught up.

    Returned is its name, which may have become another one meanwhile.

    Raises
    ------
    ObstacleError
        when it cannot be copied this way any more.
    SourceChanged
        when it was dropped.
    PgreplError
        whatever else is wrong; the same call repeated goes on after the last chunk.

    """
    try:
        return _Run(work).run()
    except (EndedError, ObstacleError) as exc:
        # What is found out first of a table that does not exist any more is a matter of time.
        if _is_there(work):
            raise
        raise _dropped(work) from exc


def _is_there(work: ChunkedResync) -> bool:
    with translated(work.sides.source.endpoint, "cannot read the catalogue"):
        ((is_there,),) = work.sides.source_session.execute(
            "select exists (select from pg_class where oid = %s)", (work.table.oid,)
        ).fetchall()
    return bool(is_there)


def _dropped(work: ChunkedResync) -> SourceChanged:
    return SourceChanged(
        f"{work.sides.source.endpoint}: table {work.table} was dropped while it was copied",
        hint="There is nothing left to copy.",
    )


class _Run:
    def __init__(self, work: ChunkedResync) -> None:
        self._work = work
        self._sides = work.sides
        self._target = work.sides.target
        self._pause = work.sides.options.pause
        self._endpoint = work.sides.endpoint
        self._source_id = work.sides.source_id
        self._resync_id = work.resync.resync_id
        self._about = {"source": work.sides.source.name, "table": str(work.table)}
        #: What the target calls it: a rename on the source comes there later.
        self._key = work.table.key
        self._ending = Ending(self._target, self._endpoint, work.resync)
        #: What makes it and shows it, if it is new.
        self._first: FirstCopy | None = None
        self._most_bytes = most_bytes(work.resync.max_rate)
        self._limit = min(
            FIRST_LIMIT,
            fitting_rows(work.resync.row_estimate, work.resync.byte_estimate, self._most_bytes),
        )
        #: What is waited for, and since when.
        self._waits: tuple[str, float] | None = None
        self._is_told = False
        self._passing = Passing()
        self._watermarks = Watermarks()
        #: How often keys were read again since all ranges are there.
        self._rounds = 0

    def run(self) -> tuple[str, str]:
        """Begin or go on, copy ranges, read keys again, catch up, end; return the name."""
        maker = self._enter(self._work.resync)
        is_over = False
        while not is_over:
            if self._follow_rename():
                maker = self._make()
            try:
                with self._sides.saying_for_whom(self._target, _BATCH_S):
                    is_over = self._step(maker)
            except EndedError:
                # Or it has just got another name, which is seen above.
                maker = self._begin_again() or maker
                self._pause(0.0)
            except NotNowError as exc:
                self._wait_for(exc.reason)
                if isinstance(exc, DdlAwaitedError):
                    maker = self._make()
            except RestartedError:
                logger.info("resync in chunks starts over after DDL", extra=self._about)
                with self._on_target("cannot start over"):
                    set_chunk_key(self._target, self._resync_id, self._find_key())
                maker = self._make()
        if self._first is not None:
            self._first.finish()
        return self._key

    def _enter(self, resync: ResyncRow) -> ChunkMaker:
        """Begin, or take up what an earlier run began."""
        sides, table = self._sides, self._work.table
        with translated(sides.source.endpoint, "cannot take a snapshot"):
            # Reading may write to the WAL.
            self._watermarks.take(sides.source_session)
        if resync.is_first:
            self._first = FirstCopy(sides, table, resync)
            if resync.state == "requested" or not self._first.take_up():
                self._first.begin()
        elif resync.state == "requested":
            self._begin()
        reach("resync.chunks_begun")
        # What was applied before the transactions applied were recorded must be visible.
        await_commits(
            *(sides.source_session, sides.source.endpoint, sides.options.wait_s, self._pause)
        )
        await_unsent(sides, [table])
        return self._make()

    def _begin_again(self) -> ChunkMaker | None:
        """Begin with a new table again whose structure DDL changed; None: that did not happen."""
        with self._on_target("cannot look for"):
            resync = find_resync_now(self._target, self._resync_id)
        if (
            resync is None
            or resync.key != self._key
            or not resync.is_first
            or resync.state != "requested"
        ):
            return None
        with translated(self._sides.source.endpoint, "cannot read the catalogue"):
            read = read_tables(self._sides.source_session, self._sides.source.rules)
            tables = {t.oid: t for t in read}
        found = tables.get(self._work.table.oid)
        if found is None:
            with self._on_target("cannot end"):
                remove_resync(self._target, self._resync_id)
            raise EndedError(self._key)
        if found.key != self._key:
            self._wait_for(f"DDL that renames {self._work.table}")
            return None
        logger.info("first copy in chunks starts over after DDL", extra=self._about)
        self._work = replace(self._work, table=found)
        return self._enter(resync)

    def _follow_rename(self) -> bool:
        """Go on under the name that DDL gave the copy, and say whether it did."""
        work = self._work
        with self._on_target("cannot look for"):
            now = find_resync_now(self._target, self._resync_id)
        if now is None:
            raise EndedError(self._key)
        key = now.key
        if key == self._key:
            return False
        lock = resync_lock(self._sides.source.name, key)
        # A command that was refused under the new name has it until its session has ended.
        deadline = time.monotonic() + _REFUSED_S
        while not try_lock(self._target, lock):
            if time.monotonic() > deadline:
                take_lock(self._target, lock)
            time.sleep(_REFUSED_LOOK_S)
        self._key = key
        resync = replace(work.resync, schema_name=key[0], table_name=key[1])
        self._ending = Ending(self._target, self._endpoint, resync)
        return True

    def _begin(self) -> None:
        """Have replay apply changes with regard to chunks, from its next transaction on."""
        with self._on_target("cannot begin"), self._target.transaction():
            # Who applies changes of this source now knows the table as one like others.
            with self._sides.saying_for_whom(self._target):
                take_positions(self._target, self._source_id)
            if not start_resync(self._target, self._resync_id, self._key, "chunked"):
                raise overtaken(self._sides.source.endpoint, self._work.table)
            restart_chunks(self._target, self._resync_id)
            begin_live(self._target, self._source_id, self._key)
            set_chunk_key(self._target, self._resync_id, self._find_key())

    def _find_key(self) -> list[str]:
        work = self._work
        table = replace(work.table, schema=self._key[0], name=self._key[1])
        obstacle = find_obstacle(self._sides.source_session, self._target, self._sides.row, table)
        if obstacle is not None:
            options = self._sides.options
            if options.starts_over and is_behind(
                self._sides.source_session, self._target, self._sides.row, options.ddl_seen
            ):
                # It may be gone when DDL is applied that changes the key.
                raise SourceChanged(
                    f"{self._sides.source.endpoint}: table {work.table} was altered: {obstacle}",
                    hint="Run the same command again when replay has applied the DDL.",
                )
            raise ObstacleError(work.table, obstacle)
        return [column.name for column in find_key(self._sides.source_session, work.table.oid)]

    def _renew_key(self, copy: LiveCopy) -> None:
        """Have a table that starts over copied by the key of now, which changes come with."""
        key = self._find_key()
        if key != list(copy.key):
            with self._on_target("cannot start over"):
                set_chunk_key(self._target, self._resync_id, key)

    def _make(self) -> ChunkMaker:
        """Read what the table is like now."""
        work = self._work
        with translated(self._sides.source.endpoint, "cannot read the catalogue"):
            set_salts(self._sides.source_session, self._sides.source.rules.salts())
            found = [
                table
                for table in read_tables(self._sides.source_session, self._sides.source.rules)
                if table.oid == work.table.oid
            ]
        if not found:
            raise _dropped(work)
        table = replace(found[0], schema=self._key[0], name=self._key[1])
        with self._on_target("cannot read the columns"):
            table = as_on_target(self._target, self._source_id, table)
        return ChunkMaker(
            source=self._sides.source.endpoint,
            endpoint=self._endpoint,
            source_session=self._sides.source_session,
            target=self._target,
            source_id=self._source_id,
            resync_id=self._resync_id,
            table=table,
            watermarks=self._watermarks,
        )

    def _step(self, maker: ChunkMaker) -> bool:
        """Place what is next, or wait for replay; say whether all is done."""
        with self._on_target("cannot go on"):
            copy = self._ending.find_copy()
            if copy.is_cancelled:
                raise CancelledError(f"the resync of {self._work.table} was cancelled")
            check_applied(self._target, self._source_id, self._key)
        if copy.version is None:
            self._renew_key(copy)
        _, key_count = self._ending.count_left()
        if key_count:
            self._count_round(copy)
            maker.place_keys()
        if not copy.is_copied:
            # Also while keys are left: what stands in their way may have to be copied first.
            chunk = maker.place_range(self._limit, self._most_bytes)
            self._waits = None
            fitting = fitting_rows(chunk.row_count, chunk.byte_count, self._most_bytes)
            self._limit = next_limit(
                *(self._limit, chunk.row_count, chunk.seconds, chunk.waited_s, fitting)
            )
            self._work.show(read_amount(self._target, self._resync_id))
            self._slow_down(chunk)
            return False
        if self._ending.count_left() == (0, 0) and self._end():
            return True
        self._look_at_replay()
        self._wait_for("replay to pass the last chunk")
        return False

    def _count_round(self, copy: LiveCopy) -> None:
        """Give up when keys are read again without end."""
        self._rounds = self._rounds + 1 if copy.is_copied else 0
        if self._rounds > _MOST_ROUNDS:
            raise ObstacleError(
                self._work.table, "the keys of its rows change faster than replay follows"
            )

    def _look_at_replay(self) -> None:
        """Wait on as long as replay moves, and say how far it has to go."""
        found = self._ending.read_needed()
        if found is None:
            return
        applied, needed = found
        with translated(self._sides.source.endpoint, "cannot look where the source is"):
            ((head,),) = self._sides.source_session.execute(
                "select pg_current_wal_insert_lsn()"
            ).fetchall()
        if self._passing.has_moved(Look(time.monotonic(), applied, needed, head)):
            self._waits = None
        text = self._passing.report()
        if text is not None:
            logger.info("resync in chunks waits for replay: %s", text, extra=self._about)

    def _end(self) -> bool:
        """End it, unless changes came meanwhile that other rules masked."""
        check_slot(self._sides)
        source = self._sides.source
        show = None if self._first is None else self._first.show
        with self._target.transaction():
            check_current(self._target, self._source_id, source.name, source.rules)
            return self._ending.end(show)

    def _slow_down(self, chunk: Chunk) -> None:
        """Keep to the rate asked for."""
        rate = self._work.resync.max_rate
        until = (
            time.monotonic() + (0.0 if rate is None else chunk.byte_count / rate) - chunk.seconds
        )
        self._pause(0.0)
        while (left := until - time.monotonic()) > 0:
            self._pause(min(left, 1.0))

    def _wait_for(self, what: str) -> None:
        check_slot(self._sides)
        now = time.monotonic()
        if self._waits is None or self._waits[0] != what:
            self._waits, self._is_told = (what, now), False
        elif now - self._waits[1] > TOLD_AFTER_S and not self._is_told:
            self._is_told = True
            logger.warning("the resync of %s waits for %s", self._work.table, what)
        if now - self._waits[1] > self._sides.options.wait_s:
            raise TargetUnavailable(
                f"the resync of {self._work.table} waits for {what}",
                hint="Run the same command again, which goes on there; replay has to run.",
            )
        self._pause(_POLL_S)

    def _on_target(self, doing: str) -> AbstractContextManager[None]:
        return translated(self._endpoint, f"{doing} the resync of {self._work.table}")
