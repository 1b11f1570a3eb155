"""One export: from the spool to its destination, batch by batch, each exactly once.

A batch is prepared at its destination, then noted on the target, then made visible, then the
position moves. Whoever is killed in between leaves what tells the next run where it was.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from pgrepl.config.model import Config, SourceConfig
from pgrepl.config.naming import TableSelection, shown_name
from pgrepl.errors import AlreadyRunning, PgreplError, Retry, UsageError
from pgrepl.export.changes import Changes
from pgrepl.export.envelopes.debezium import Moment
from pgrepl.export.plan import ExportPlan, ExportSettings
from pgrepl.export.position import ConsumerPosition
from pgrepl.export.sinks.sink import Sink
from pgrepl.export.start import ExportStart, find_start, find_table, read_rows
from pgrepl.export.tables import ExportedTable, TableName
from pgrepl.export.transactions import read_transactions
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn, as_lsn
from pgrepl.postgres.advisory_locks import export_lock, take_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.durability import await_standbys
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.batches import Batch, Limits, missing_segment, plan_batch
from pgrepl.replayer.listener import Listener
from pgrepl.replayer.pacing import Pause
from pgrepl.retry import Backoff
from pgrepl.store.migrations import migrate
from pgrepl.store.progress.receive_progress import last_written
from pgrepl.store.progress.shard_progress import Fenced
from pgrepl.store.sources import SourceRow, find_source
from pgrepl.store.spool.consumer_gaps import read_gaps
from pgrepl.store.spool.consumers import Consumer, touch
from pgrepl.store.spool.spool_rows import read_parts, read_segments
from pgrepl.terminal import command

__all__ = ["ExportResult", "Exporter"]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ExportResult:
    """What one run did."""

    lsn: Lsn = field(default_factory=lambda: Lsn(0))
    record_count: int = 0
    batch_count: int = 0
    row_count: int = 0


@dataclass(frozen=True, slots=True)
class _Work:
    """A batch, and which of its segments are of one transaction each."""

    batch: Batch
    lone: frozenset[int]


class Exporter:
    """Runs an export until it is stopped, or once to the end of the spool."""

    def __init__(
        self,
        config: Config,
        source: SourceConfig,
        plan: ExportPlan,
        settings: ExportSettings | None = None,
    ) -> None:
        """Connect to nothing yet."""
        self._config = config
        self._source = source
        self._plan = plan
        self._settings = settings or ExportSettings()
        self._stopping = threading.Event()
        self._is_restart = False
        #: Whether it had the lock of its consumer.
        self._was_alone = False
        self._result = ExportResult()
        #: Tables that are not exported whole, of which was told.
        self._told: set[TableName] = set()
        self._selection = TableSelection.of(plan.tables or ("*.*",))

    def stop(self) -> None:
        """End after the batch in hand."""
        self._stopping.set()

    def run(self, *, once: bool, restart: bool = False) -> ExportResult:
        """Export; what passes by itself is tried again unless it runs once."""
        self._is_restart = restart
        backoff = Backoff(self._settings.backoff_s, self._settings.backoff_limit_s)
        endpoint = self._config.target.endpoint
        while True:
            before = self._result.batch_count
            try:
                with (
                    closing(connect(endpoint, "export")) as connection,
                    translated(endpoint, "cannot export"),
                ):
                    migrate(connection, endpoint)
                    self._run(connection, once=once)
                    return self._result
            except PgreplError as exc:
                is_passing = exc.retry is Retry.TIMED and not isinstance(exc, Fenced)
                # Later it may be a session of its own that the target has not ended yet.
                is_second = isinstance(exc, AlreadyRunning) and not self._was_alone
                if is_second or once or not is_passing or self._stopping.is_set():
                    raise
                if self._result.batch_count > before:
                    backoff.succeed()
                pause_s = backoff.fail()
                logger.warning("%s; trying again in %.1f s", exc.message, pause_s)
                self._stopping.wait(pause_s)

    def _run(self, connection: Connection, *, once: bool) -> None:
        row = self._find_source(connection)
        take_lock(connection, export_lock(self._source.name, self._plan.consumer))
        self._was_alone = True
        # What is visible at its destination is not taken back.
        await_standbys(connection)
        position = ConsumerPosition(connection, row, self._plan)
        consumer = position.open(restart=self._is_restart)
        with closing(self._plan.make_sink(consumer, is_restart=self._is_restart)) as sink:
            consumer = position.recover(consumer, sink)
            # Should it fail from here on, it goes on.
            self._is_restart = False
            if consumer.state == "starting":
                consumer = self._begin(position, row, consumer, sink)
            envelope = self._plan.make_envelope(row.dbname)
            changes = Changes(
                envelope,
                self._selection,
                map(ExportedTable.load, consumer.tables),
                int(consumer.memory["last_commit"]),
                lambda name: find_table(connection, row.source_id, name),
                rules=self._source.rules,
            )
            changes.has_new_tables = False
            self._tell_gaps(connection, consumer)
            self._follow(connection, position, consumer, sink, changes, once=once)

    def _find_source(self, connection: Connection) -> SourceRow:
        if not self._source.is_database:
            raise UsageError(
                f'source "{self._source.name}" is not a PostgreSQL server: only those are exported'
            )
        row = find_source(connection, self._source.name)
        if row is None or row.state != "streaming":
            raise UsageError(
                f'source "{self._source.name}" is not copied',
                hint=f"Run: {command('basebackup', self._source.name)}",
            )
        return row

    def _begin(
        self, position: ConsumerPosition, row: SourceRow, consumer: Consumer, sink: Sink
    ) -> Consumer:
        """Begin where replay is; with a snapshot, hand on the rows that there are."""
        plan, endpoint = self._plan, self._config.target.endpoint
        with (
            closing(connect(endpoint, "export")) as reading,
            translated(endpoint, "cannot read the tables"),
            find_start(
                reading,
                row.source_id,
                self._selection,
                with_rows=plan.has_snapshot,
                is_stopping=self._stopping.is_set,
            ) as start,
        ):
            if plan.envelope == "upsert":
                _check_keys(start)
            if plan.has_snapshot:
                self._write_rows(reading, start, sink, row)
            state = _state(
                start.seq,
                start.lsn,
                int(start.lsn),
                0 if sink.is_empty else 1,
                [table.exported for table in start.tables],
            )
            return position.settle(consumer, sink, state)

    def _write_rows(
        self, reading: Connection, start: ExportStart, sink: Sink, row: SourceRow
    ) -> None:
        envelope = self._plan.make_envelope(row.dbname)
        moment = Moment(None, int(start.lsn), 0, time.time_ns() // 1000)
        for table in start.tables:
            envelope.describe(table.exported)
            if table.has_rows:
                for texts in read_rows(reading, table):
                    sink.write(envelope.snapshot_row(table.exported.name, texts, moment))
                    self._result.row_count += 1
                reach("export.in_snapshot")

    def _follow(
        self,
        connection: Connection,
        position: ConsumerPosition,
        consumer: Consumer,
        sink: Sink,
        changes: Changes,
        *,
        once: bool,
    ) -> None:
        end = last_written(connection, consumer.source_id) if once else None
        touched = 0.0
        with closing(Listener(self._config.target.endpoint, "export")) as listener:
            while not self._stopping.is_set():
                self._result.lsn = consumer.lsn
                listener.clear()
                began = time.monotonic()
                work = None
                if end is None or consumer.seq < end:
                    work = self._next(connection, position, consumer, end)
                if work is not None:
                    state = self._write(connection, consumer, sink, changes, work)
                    consumer = position.settle(consumer, sink, state)
                    changes.has_new_tables = False
                    self._result.batch_count += 1
                    self._tell_gaps(connection, consumer)
                    if not once and self._plan.pause_s:
                        left = began + self._plan.pause_s - time.monotonic()
                        self._stopping.wait(max(left, 0.0))
                    continue
                if time.monotonic() - touched > self._settings.touch_s:
                    touch(connection, consumer)
                    touched = time.monotonic()
                if once:
                    return
                listener.wait(self._settings.touch_s, Pause(0, 0, 0), self._stopping)

    def _tell_gaps(self, connection: Connection, consumer: Consumer) -> None:
        """Say, once each, of which tables the changes that were handed on are not everything."""
        gaps = read_gaps(connection, [consumer.source_id])
        for name, reason in gaps.get((consumer.source_id, consumer.name), {}).items():
            if name not in self._told:
                self._told.add(name)
                logger.warning(
                    "rows of table %s changed without a change in the spool: what is exported is"
                    " not everything (%s); start over with --restart --snapshot",
                    shown_name(*name),
                    reason,
                )

    def _next(
        self,
        connection: Connection,
        position: ConsumerPosition,
        consumer: Consumer,
        end: int | None,
    ) -> _Work | None:
        """Return the next batch; None: there is nothing to read."""
        settings = self._settings
        room = settings.batch_segments
        if end is not None:
            room = min(room, end - consumer.seq)
        segments = read_segments(connection, consumer.source_id, consumer.seq, room)
        limits = Limits(
            seconds=10**9,
            changes=settings.batch_changes,
            serial_segments=room,
            serial_changes=settings.batch_changes,
        )
        batch = plan_batch(segments, consumer.seq, limits)
        if batch is None:
            if last_written(connection, consumer.source_id) > consumer.seq:
                # Written since; or the consumer was let go.
                position.check(position.read())
                if not read_segments(connection, consumer.source_id, consumer.seq, 1):
                    raise missing_segment(consumer.seq + 1)
            return None
        return _Work(batch, frozenset(own.seq for own in segments if own.is_lone))

    def _write(
        self,
        connection: Connection,
        consumer: Consumer,
        sink: Sink,
        changes: Changes,
        work: _Work,
    ) -> dict[str, Any]:
        """Give a batch to the sink; return where the consumer is after it."""
        batch = work.batch
        with connection.transaction():
            parts = read_parts(
                connection, consumer.source_id, batch.from_seq, batch.to_seq, sorted(batch.buckets)
            )
            count = 0
            for record in changes.take(read_transactions(parts, work.lone)):
                sink.write(record)
                count += 1
        tables = list(changes.tables.values()) if changes.has_new_tables else None
        number = int(consumer.memory["batch"]) + (0 if sink.is_empty else 1)
        self._result.record_count += count
        return _state(batch.to_seq, as_lsn(batch.last_lsn), changes.last_commit, number, tables)


def _state(
    seq: int, lsn: Lsn, last_commit: int, batch: int, tables: list[ExportedTable] | None
) -> dict[str, Any]:
    state: dict[str, Any] = {
        "seq": seq,
        "lsn": str(lsn),
        "memory": {"last_commit": str(last_commit), "batch": batch},
    }
    if tables is not None:
        state["tables"] = [table.dump() for table in tables]
    return state


def _check_keys(start: ExportStart) -> None:
    keyless = [
        ".".join(table.exported.name)
        for table in start.tables
        if not table.exported.key and table.has_rows
    ]
    if keyless:
        raise UsageError(
            f"tables without a key cannot be upserted: {', '.join(keyless[:5])}",
            hint="Name other tables, give them primary keys, or use --envelope debezium.",
        )
