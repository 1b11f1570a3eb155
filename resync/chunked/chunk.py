"""Place one chunk in the stream: read under a snapshot, put into the table between two changes.

The row of ``replication.resync`` is locked first, which replay does too before it applies changes
of the table: so they wait for a moment. Then the snapshot is taken. It has to see every transaction
that was applied already. Those that it sees and that come later are skipped where the chunk is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import errors
from psycopg.sql import SQL, Composed, Identifier, Literal

from pgrepl.basebackup.rows.copy_pipe import Transferred, transfer
from pgrepl.basebackup.snapshot import find_lockers
from pgrepl.catalog.tables import SourceTable, is_copy_of, read_columns
from pgrepl.config.dsn import Endpoint
from pgrepl.config.naming import shown_name
from pgrepl.decoding.shape import Shape
from pgrepl.errors import DdlError, PgreplError
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.chunked.key_staging import in_range
from pgrepl.replayer.target_table import Tables
from pgrepl.resync.chunked.ending import EndedError
from pgrepl.resync.chunked.pacing import estimate_chunks
from pgrepl.resync.chunked.rows import ChunkRows
from pgrepl.resync.chunked.scope import KeyScope, RangeScope, Scope
from pgrepl.resync.chunked.watermarks import Watermarks
from pgrepl.store.locked import find_lock_reason
from pgrepl.store.parked import find_kind
from pgrepl.store.progress.shard_progress import read_passed
from pgrepl.store.resync.resync_chunks import (
    LiveCopy,
    add_chunk,
    add_rereads,
    find_live_copy,
    note_first,
    pass_chunks,
    read_rereads,
    read_xids,
    remove_xids,
    restart_chunks,
    set_reread,
    set_version,
)
from pgrepl.store.resync.running_resyncs import (
    add_progress,
    read_amount,
    set_chunk_estimate,
    set_resync_state,
    set_snapshot,
)
from pgrepl.store.tables.copy_start import CopyStart
from pgrepl.store.tables.target_tables import find_target_table, read_versions

__all__ = [
    "Chunk",
    "ChunkMaker",
    "DdlAwaitedError",
    "NotNowError",
    "ObstacleError",
    "RestartedError",
    "check_applied",
]

#: What a session meets whose table got other names, or columns, in this moment.
_RENAMED = (errors.UndefinedColumn, errors.UndefinedTable, errors.InvalidSchemaName)
#: How long replay of the table may wait for a lock on the source.
_LOCK_TIMEOUT_MS = 500
#: How long others that want the table on the target wait behind a chunk that waits for a lock.
_COPY_LOCK_TIMEOUT_MS = 1000
_AGAINST_WRITERS = ("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")
#: How often, and how far apart, a snapshot is taken again that does not see what was applied.
_SNAPSHOTS = 20
_SNAPSHOT_S = 0.02
#: How often, and how long, it is looked whether what a snapshot sees is on disk.
_FLUSH_LOOK_S = 0.02
_FLUSH_S = 1.0
#: The number of keys that are read again at once.
_KEYS = 2_000


class NotNowError(Exception):
    """A chunk cannot be placed at this moment; nothing has changed."""

    def __init__(self, reason: str) -> None:
        """Say what is waited for."""
        super().__init__(reason)
        self.reason = reason


class ObstacleError(DdlError):
    """A table cannot be copied in chunks any more."""

    def __init__(self, table: SourceTable | str, obstacle: str) -> None:
        """Say why."""
        super().__init__(
            f"table {table} cannot be copied in chunks any more: {obstacle}",
            hint="See pgrepl status. A resync with --way whole makes it right.",
        )


def check_applied(target: Connection, source_id: int, key: tuple[str, str]) -> None:
    """Make sure that changes of a table are applied as they come.

    Raises
    ------
    NotNowError
        when they wait for a lock: they are applied when it is free, and the copy goes on.
    ObstacleError
        when they wait for something else.

    """
    reason = find_lock_reason(target, source_id, key)
    if reason is not None:
        raise NotNowError(f"a lock on the copy of {shown_name(*key)}: {reason}")
    if find_kind(target, source_id, key) not in (None, "locked"):
        raise ObstacleError(shown_name(*key), "its changes are not applied")


class DdlAwaitedError(NotNowError):
    """The table on the source is another one than its copy, as DDL is not applied yet."""


class RestartedError(Exception):
    """DDL was applied to the copy: it is copied from the first key on."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk that is in the table."""

    row_count: int
    byte_count: int
    #: How long changes of the table had to wait.
    seconds: float
    #: How long it had to wait for replay itself.
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkMaker:
    """Makes the chunks of one table."""

    source: Endpoint
    endpoint: Endpoint
    source_session: Connection
    target: Connection
    source_id: int
    resync_id: int
    table: SourceTable
    watermarks: Watermarks

    def place_range(self, limit: int, most_bytes: int) -> Chunk:
        """Place the next range of keys, at most ``limit`` rows, and about ``most_bytes``.

        Raises
        ------
        NotNowError, RestartedError
            when it is not placed.

        """
        asked = time.monotonic()
        with self._live_copy() as (copy, begin):
            if copy.is_copied:
                raise NotNowError("all ranges are copied")
            done = self._place(copy, RangeScope(copy.last_key, limit, most_bytes))
            seconds = time.monotonic() - begin
            return Chunk(done.row_count, done.byte_count, seconds, begin - asked)

    def place_keys(self) -> None:
        """Place keys that are to be read again, some of them.

        Raises
        ------
        NotNowError, RestartedError
            when they are not placed.

        """
        with self._live_copy() as (copy, _):
            keys = read_rereads(self.target, copy.resync_id, _KEYS)
            if keys:
                self._place(copy, KeyScope(keys))

    @contextmanager
    def _live_copy(self) -> Iterator[tuple[LiveCopy, float]]:
        """Lock the table against replay, and make sure that it is what it was."""
        restart: int | None = None
        with self._awaits_ddl(), self.target.transaction():
            self.target.execute("set local session_replication_role = replica")
            copy = find_live_copy(self.target, self.source_id, self.table.key, self.resync_id)
            begin = time.monotonic()
            if copy is None:
                raise EndedError(self.table.key)
            applied = read_passed(self.target, self.source_id)
            # Seen after that: what waits is not applied, whatever replay has passed.
            check_applied(self.target, self.source_id, self.table.key)
            version = self._version()
            if copy.version is None:
                set_version(self.target, copy.resync_id, version)
            elif copy.version != version:
                restart_chunks(self.target, copy.resync_id)
                restart = copy.resync_id
            if restart is None:
                if applied is not None:
                    pass_chunks(self.target, copy.resync_id, applied)
                yield copy, begin
                reach("resync.before_chunk_commit")
        if restart is not None:
            raise RestartedError
        reach("resync.chunk_placed")

    @contextmanager
    def _awaits_ddl(self) -> Iterator[None]:
        """Try again when DDL was applied to the copy in this very moment."""
        with translated(self.endpoint, f"cannot copy {self.table}"):
            try:
                yield
            except errors.LockNotAvailable as exc:
                raise NotNowError(self._lock_on_copy()) from exc
            except _RENAMED as exc:
                raise DdlAwaitedError(f"DDL on {self.table}") from exc
            except PgreplError as exc:
                # A schema that is renamed asks for no lock on its tables.
                if not isinstance(exc.__cause__, _RENAMED):
                    raise
                raise DdlAwaitedError(f"DDL on {self.table}") from exc

    def _lock_on_copy(self) -> str:
        """Say who has a lock on the copy, or on rows of it."""
        found = find_target_table(self.target, self.source_id, self.table.key)
        held = find_lockers(self.target, None if found is None else found.oid, _AGAINST_WRITERS)
        return f"a lock on the copy of {self.table}, held by {held}"

    def _version(self) -> str | None:
        return read_versions(self.target, self.source_id, [self.table.key]).get(self.table.key)

    def _place(self, copy: LiveCopy, scope: Scope) -> Transferred:
        tables = Tables(self.target, self.source_id, Lsn(0))
        found = tables.look_up(self.table.key)
        if not found.is_live or found.shape is None:
            raise ObstacleError(self.table, "its changes are not applied")
        xids = read_xids(self.target, copy.resync_id)
        self.target.execute(
            SQL("set local lock_timeout = {}").format(Literal(f"{_COPY_LOCK_TIMEOUT_MS}ms"))
        )
        with self._snapshot(xids) as start:
            self._check_columns(found.shape)
            rows = ChunkRows(self.target, found.shape, self.table, copy.key)
            done = self._read(scope.copy_out(self.table, copy.key), rows, scope)
            self._check_name()
            self._await_flushed()
            reach("resync.chunk_read")
        self._put(copy, scope, rows, done, start)
        remove_xids(self.target, copy.resync_id)
        return done

    def _await_flushed(self) -> None:
        """Wait until no crash of the source can undo what was read."""
        deadline = time.monotonic() + _FLUSH_S
        while not self.watermarks.is_lasting(self.source_session):
            if time.monotonic() > deadline:
                raise NotNowError("commits that are not on the source's disk yet")
            time.sleep(_FLUSH_LOOK_S)

    def _read(self, statement: Composed, rows: ChunkRows, scope: Scope) -> Transferred:
        """Read rows; of a range no more than some bytes of them."""
        self.source_session.execute("savepoint pgrepl_rows")
        done = transfer(
            (self.source, self.source_session, statement),
            (self.endpoint, self.target, rows.copy_in()),
            self.table,
            most_bytes=scope.most_bytes if isinstance(scope, RangeScope) else None,
        )
        self.source_session.execute("rollback to pgrepl_rows")
        return done

    def _put(
        self,
        copy: LiveCopy,
        scope: Scope,
        rows: ChunkRows,
        done: Transferred,
        start: CopyStart,
    ) -> None:
        """Put rows into the table, and record the chunk."""
        resync_id, snapshot = copy.resync_id, str(start.snapshot)
        if isinstance(scope, KeyScope):
            number = add_chunk(
                self.target, resync_id, limits=None, snapshot=snapshot, lsn=start.lsn
            )
            set_reread(self.target, resync_id, scope.keys, number)
            left = rows.put(scope.condition(copy.key), is_range=False)
            add_rereads(self.target, resync_id, left)
            return
        is_last = done.row_count < scope.limit and not done.is_cut
        high = None if is_last else rows.last_key()
        limits = copy.last_key, high
        add_chunk(self.target, resync_id, limits=limits, snapshot=snapshot, lsn=start.lsn)
        names = [Identifier("t", name) for name in copy.key]
        left = rows.put(in_range(names, *limits), is_range=True)
        add_rereads(self.target, resync_id, left)
        note_first(self.target, resync_id, snapshot=snapshot, lsn=start.lsn)
        set_snapshot(self.target, resync_id, snapshot=snapshot, lsn=start.lsn)
        add_progress(
            *(self.target, resync_id),
            rows=done.row_count,
            bytes_=done.byte_count,
            chunks=1,
            last_key=high,
        )
        amount = read_amount(self.target, resync_id)
        estimate = amount.chunk_count if high is None else estimate_chunks(amount, scope.limit)
        set_chunk_estimate(self.target, resync_id, estimate)
        if high is None:
            set_resync_state(self.target, resync_id, "copied")

    @contextmanager
    def _snapshot(self, applied: frozenset[int]) -> Iterator[CopyStart]:
        """Hold a snapshot of the source that sees all these transactions, and the table in it."""
        with translated(self.source, f"cannot read {self.table}"):
            for _ in range(_SNAPSHOTS):
                start = self._begin()
                try:
                    contains = start.contains()
                    # Whatever was applied committed before now.
                    if all(contains(xid, 0) for xid in applied):
                        yield start
                        return
                finally:
                    self.source_session.execute("rollback")
                time.sleep(_SNAPSHOT_S)
        raise NotNowError("transactions that were applied and are still committing on the source")

    def _begin(self) -> CopyStart:
        """Begin a transaction on the source: first the lock, which takes no snapshot yet."""
        self.source_session.execute("begin isolation level repeatable read read only")
        try:
            self.source_session.execute(
                SQL("set local lock_timeout = {}").format(Literal(f"{_LOCK_TIMEOUT_MS}ms"))
            )
            # A row that a policy hides must not look as if it was deleted.
            self.source_session.execute("set local row_security = off")
            # In the order of the key, whatever the statistics say.
            self.source_session.execute("set local enable_seqscan = off")
            self.source_session.execute("set local enable_sort = off")
            self.source_session.execute(
                SQL("lock table only {} in access share mode").format(self.table.identifier)
            )
            return self.watermarks.take(self.source_session)
        except errors.LockNotAvailable:
            self.source_session.execute("rollback")
            held = find_lockers(self.source_session, self.table.oid)
            raise NotNowError(f"a lock on {self.table} on the source, held by {held}") from None
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            self.source_session.execute("rollback")
            raise DdlAwaitedError(f"DDL that drops or renames {self.table}") from None
        except BaseException:
            self.source_session.execute("rollback")
            raise

    def _check_columns(self, shape: Shape) -> None:
        """Make sure that the snapshot's table is the one whose copy is on the target."""
        ((copy_oid,),) = self.target.execute(
            "select %s::regclass::oid::bigint", (shape.identifier.as_string(),)
        ).fetchall()
        self._check_name()
        columns = read_columns(self.source_session, self.table.oid)
        there = read_columns(self.target, copy_oid)
        plain = {column.name for column in there if not column.is_generated}
        names = set(self.table.columns)
        # DDL may have been applied since the shape was read.
        is_same = {column.name for column in columns} & plain == names <= shape.by_name.keys()
        if not is_same or not is_copy_of(columns, there, self.table.omitted):
            raise DdlAwaitedError(f"DDL on {self.table} that is not applied yet")

    def _check_name(self) -> None:
        """Make sure that the name is still that of the table, also after rows were read by it."""
        named = self.source_session.execute(
            SQL("select {}::regclass::oid::bigint").format(
                Literal(self.table.identifier.as_string())
            )
        ).fetchall()
        if named != [(self.table.oid,)]:
            raise DdlAwaitedError(f"DDL on {self.table} that is not applied yet")
