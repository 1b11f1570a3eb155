"""Tables that another session of the target locks: they wait alone, and go on by themselves.

A task that meets a lock parks the table and goes on (``TableLocked``). Here the lock is asked for
again and again beside replay, and what waited is applied in steps that are each a transaction, so
that a task that adds to the table waits for one step at most. The table's lock comes first: nobody
waits for the row of ``parked_table`` while we wait for the table.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import psycopg

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import ReplayConfig
from pgrepl.config.naming import shown_name
from pgrepl.decoding.formats import payload_decoder
from pgrepl.errors import PgreplError
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.chunked.apply import restart_copy
from pgrepl.replayer.parked.lock_watch import Blocked, LockWatch
from pgrepl.replayer.parked.spooled_records import apply_or_park
from pgrepl.replayer.serial.line_replay import Handlers, LineReplay, Lines
from pgrepl.replayer.session import limit_waits
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.apply import TableFailed
from pgrepl.replayer.shard.record_changes import RecordPolicy
from pgrepl.replayer.target_table import Table, Tables
from pgrepl.store.locked import (
    LOCK_MODES,
    Blocker,
    LockedTable,
    find_locked,
    find_step_end,
    leave_to_group,
    lock_target_table,
    note_blocked,
    remove_step,
)
from pgrepl.store.parked import (
    fail_retry,
    find_kind,
    follow_parking,
    lock_parked,
    read_interrupted,
    stream_payloads,
    unpark,
)
from pgrepl.store.tables.source_tables import add_unknown_table

__all__ = ["LockedTables"]

logger = logging.getLogger(__name__)

#: So often it is looked whether a table was set aside, and whether an attempt is due.
_LOOK_S = 0.5
_REST_S = 0.05
#: An attempt waits for the lock so long, at last: in the queue of those who wait nobody starves.
_LONGEST_S = 2.0


@dataclass(slots=True)
class _Attempts:
    """How often the lock on a table was asked for in vain."""

    wait_s: float
    next_at: float = 0.0
    #: Which lock is asked for: a stronger one after another lock was met among the rows.
    mode: int = 0


@dataclass
class LockedTables:
    """Releases tables when their locks are free: in a thread of its own, or when it is asked to."""

    target: Endpoint
    config: ReplayConfig
    settings: ReplaySettings
    _look_at: float = 0.0
    _thread: threading.Thread | None = None
    _is_stopping: threading.Event = field(default_factory=threading.Event)
    _attempts: dict[tuple[int, tuple[str, str]], _Attempts] = field(default_factory=dict)
    #: What was said of a table already.
    _told: dict[tuple[int, tuple[str, str]], str] = field(default_factory=dict)

    def look(self, control: Connection, source_ids: Collection[int]) -> None:
        """Begin to release what was set aside; call it often."""
        now = time.monotonic()
        if now < self._look_at or (self._thread is not None and self._thread.is_alive()):
            return
        self._look_at = now + _LOOK_S
        if not find_locked(control, source_ids):
            return
        if self.config.consistency == "batch":
            # A batch that is staged must not find another table worked off: between batches only.
            self.try_all(source_ids)
            return
        self._is_stopping.clear()
        self._thread = threading.Thread(
            target=self._run, args=(list(source_ids),), name="pgrepl-locked", daemon=True
        )
        self._thread.start()

    def finish(self, control: Connection, source_ids: Collection[int]) -> bool:
        """Release what can be, as a job of cron has no other time; whether that was anything."""
        self.stop()
        end = time.monotonic() + self.settings.lock_timeout_s
        before = len(find_locked(control, source_ids))
        while left := len(find_locked(control, source_ids)):
            self.try_all(source_ids)
            if time.monotonic() >= end:
                break
            self._is_stopping.wait(_REST_S)
        return left < before

    def stop(self) -> None:
        """End the thread, if it runs, after the step in hand."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._is_stopping.clear()

    def _run(self, source_ids: Sequence[int]) -> None:
        try:
            with LockWatch(self.target, self.settings) as watch:
                while not self._is_stopping.is_set():
                    tables = find_locked(watch.watcher, source_ids)
                    if not tables:
                        return
                    # Each of them, whatever came of the one before.
                    is_moving = [self._try(watch, table) for table in tables]
                    if not any(is_moving):
                        self._is_stopping.wait(_REST_S)
        except (psycopg.Error, PgreplError) as exc:
            # It is begun again at the next look.
            logger.debug("locked tables: %s", exc)

    def try_all(self, source_ids: Collection[int]) -> None:
        """Ask once for the lock of each table, and apply what waits where it is free."""
        with (
            translated(self.target, "cannot apply what waits for a lock"),
            LockWatch(self.target, self.settings) as watch,
        ):
            for table in find_locked(watch.watcher, source_ids):
                while self._try(watch, table) and not self._is_stopping.is_set():
                    pass

    def _try(self, watch: LockWatch, table: LockedTable) -> bool:
        """Apply a step of what waits for a table, if its lock is free; whether more may wait."""
        key = table.source_id, table.name
        attempts = self._attempts.setdefault(key, _Attempts(self.settings.table_lock_s))
        if time.monotonic() < attempts.next_at:
            return False
        try:
            is_more = watch.run(lambda: self._step(watch.writer, table, attempts))
        except Blocked as blocked:
            self._note(watch.watcher, table, blocked.blockers)
            if blocked.is_inside:
                attempts.mode = min(attempts.mode + 1, len(LOCK_MODES) - 1)
            attempts.wait_s = min(attempts.wait_s * 2, _LONGEST_S)
            attempts.next_at = time.monotonic() + attempts.wait_s
            return False
        except TableFailed as failed:
            self._park(watch.watcher, table, failed)
            is_more = False
        self._attempts.pop(key, None)
        if not is_more and self._told.pop(key, None) is not None:
            logger.info(
                "no lock is in the way any more",
                extra={"source": table.source, "table": shown_name(*table.name)},
            )
        return is_more

    def _step(self, connection: Connection, table: LockedTable, attempts: _Attempts) -> bool:
        """Apply a step in a transaction; whether more waits.

        Raises
        ------
        TableFailed
            when what waits cannot be applied, or other locks are in its way.
        LockNotAvailable
            when the table is locked still.

        """
        source_id, name = table.source_id, table.name
        with connection.transaction():
            limit_waits(connection, attempts.wait_s)
            lock_target_table(connection, table, attempts.mode)
            limit_waits(connection, self.settings.lock_timeout_s)
            follow_parking(connection, source_id)
            lock_parked(connection, source_id, name)
            if find_kind(connection, source_id, name) != "locked":
                return False
            if name in read_interrupted(connection, source_id):
                # The end of its copy applies what waits.
                return False
            if table.group_id is not None:
                leave_to_group(connection, table, "DDL waits with it")
                return False
            to_seq = find_step_end(connection, source_id, name, self.settings.step_bytes)
            is_more = False
            if to_seq is not None:
                limit_waits(connection, self.settings.table_lock_s)
                self._apply(connection, table, to_seq)
                is_more = remove_step(connection, source_id, name, to_seq)
            if not is_more:
                unpark(connection, source_id, name)
            reach("replayer.before_release_commit")
        reach("replayer.after_release_commit")
        return is_more

    def _apply(self, connection: Connection, table: LockedTable, to_seq: int) -> None:
        source_id = table.source_id
        policy = RecordPolicy(source_id, self.config.on_error, self.config.on_conflict)

        def apply(own: Table, lines: Lines) -> None:
            apply_or_park(connection, policy, lines.spooled(own))

        def fail(_own: Table, _lines: Lines, failed: TableFailed) -> None:
            raise failed

        def never(*_: object) -> None:
            raise TableFailed("what waits for it holds changes of another table, or DDL")

        handlers = Handlers(
            apply,
            lambda name: restart_copy(connection, source_id, name),
            never,
            lambda name: add_unknown_table(connection, source_id, name),
            never,
            fail,
        )
        tables = Tables(connection, source_id, Lsn(0), ignores_parking=True)
        replay = LineReplay(connection, tables, handlers, self.settings.chunk_bytes)
        for form, encoding, payload, count in stream_payloads(
            connection, source_id, table.name, to_seq
        ):
            replay.take_payload(payload_decoder(form, encoding), payload, count)
        replay.finish()

    def _note(
        self, connection: Connection, table: LockedTable, blockers: Sequence[Blocker]
    ) -> None:
        """Say who holds a lock that is not free for long."""
        if not blockers or table.seconds < self.settings.blocker_s:
            return
        reason = f"locked on the target by {', '.join(map(str, blockers))}"
        key = table.source_id, table.name
        if table.reason != reason:
            note_blocked(connection, table, reason)
        pids = ", ".join(str(blocker.pid) for blocker in blockers)
        if self._told.get(key) != pids:
            self._told[key] = pids
            logger.warning(
                reason,
                extra={
                    "source": table.source,
                    "table": shown_name(*table.name),
                    "pid": pids,
                    "hint": "Its changes wait, and go on by themselves when the lock is free. To"
                    f" end that session: select pg_terminate_backend({blockers[0].pid})",
                },
            )

    def _park(self, connection: Connection, table: LockedTable, failed: TableFailed) -> None:
        """Park a table as any other whose changes cannot be applied; what waits stays."""
        with connection.transaction():
            if not lock_parked(connection, table.source_id, table.name):
                return
            fail_retry(*(connection, table.source_id, table.name, failed.sqlstate, failed.reason))
        logger.error(
            "parked",
            extra={
                "source": table.source,
                "table": shown_name(*table.name),
                "reason": failed.reason,
            },
        )
