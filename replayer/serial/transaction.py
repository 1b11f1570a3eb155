"""Serial segments: source transactions with DDL or TRUNCATE, applied by the driver alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pgrepl.config.model import OnConflict, OnError
from pgrepl.ddl import CapturedDdl
from pgrepl.errors import DdlStopped
from pgrepl.failpoint import reach
from pgrepl.postgres.connect import Connection
from pgrepl.replayer.batches import Batch
from pgrepl.replayer.chunked.apply import CopyLocked, restart_copy
from pgrepl.replayer.parked.parking import Place, add_payload, park
from pgrepl.replayer.parked.spooled_records import apply_or_park
from pgrepl.replayer.serial.captured import is_row, make_captured, read_rows
from pgrepl.replayer.serial.line_replay import Handlers, LineReplay, Lines
from pgrepl.replayer.session import limit_waits
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.apply import TableFailed, TableLocked
from pgrepl.replayer.shard.record_changes import RecordPolicy
from pgrepl.replayer.shard.shard_result import Parking
from pgrepl.replayer.shard.task import stop_at
from pgrepl.replayer.target_table import Table, TableName, Tables
from pgrepl.store.parked import follow_parking
from pgrepl.store.parked_ddl import WaitingDdl, decide_to_retry, keep_ddl, park_for_ddl
from pgrepl.store.progress.shard_progress import move_all, remove_applied
from pgrepl.store.sources import SourceRow
from pgrepl.store.spool.spool_format import SERIAL_BUCKET
from pgrepl.store.spool.spool_rows import SpooledPart, read_part, read_part_keys, read_parts
from pgrepl.store.tables.source_tables import add_unknown_table

if TYPE_CHECKING:
    from pgrepl.ddl_capture import Applier

__all__ = ["SerialTransaction"]

logger = logging.getLogger(__name__)


class SerialTransaction:
    """Applies a serial segment, or some that follow one another, in one target transaction.

    The progress of all of them is in it. A few things cannot be used before they are committed, as
    a new value of an enum: whoever applied several and failed applies them one by one.
    """

    def __init__(
        self,
        connection: Connection,
        source: SourceRow,
        batch: Batch,
        *,
        on_error: OnError,
        on_conflict: OnConflict,
        ddl_on_error: OnError,
        ddl: Applier,
        settings: ReplaySettings,
        sets_aside: bool = True,
    ) -> None:
        """Prepare; nothing runs yet. ``sets_aside``: tables that are locked wait alone."""
        self._connection = connection
        self._source = source
        self._batch = batch
        self._on_error = on_error
        self._on_conflict = on_conflict
        self._ddl_on_error = ddl_on_error
        self._ddl = ddl
        self._settings = settings
        self._sets_aside = sets_aside
        self._part: SpooledPart | None = None
        self._piece = 0
        self._captured: CapturedDdl | None = None
        #: The rows so far of the command that the captured rows are about.
        self._command: list[bytes] = []
        self._tables = Tables(connection, source.source_id, batch.first_lsn)
        self.parked: list[Parking] = []
        self.change_counts: dict[TableName, int] = {}

    def run(self) -> None:
        """Apply it.

        Raises
        ------
        DdlStopped
            when DDL in it waits for a person, and nothing of it is applied; of a single segment
            that is recorded.

        """
        try:
            with self._connection.transaction():
                self._apply()
                reach("replayer.before_serial_commit")
        except DdlStopped as stopped:
            if self._captured is not None and self._batch.is_single:
                self._ddl.record_stop(self._connection, self._captured, stopped)
                reach("ddl.stop_recorded")
            raise
        reach("replayer.after_serial_commit")

    def _apply(self) -> None:
        source_id, batch = self._source.source_id, self._batch
        follow_parking(self._connection, source_id)
        move_all(self._connection, source_id, batch.from_seq, batch.to_seq, batch.last_lsn)
        limit_waits(
            self._connection, min(self._settings.truncate_lock_s, self._settings.lock_timeout_s)
        )
        handlers = Handlers(
            self._apply_table,
            lambda name: restart_copy(self._connection, source_id, name),
            self._keep,
            self._note_unknown,
            self._apply_ddl,
            self._fail,
        )
        replay = LineReplay(self._connection, self._tables, handlers, self._settings.chunk_bytes)
        for part in read_parts(
            self._connection, source_id, batch.from_seq, batch.to_seq, (SERIAL_BUCKET,)
        ):
            if self._part is not None and part.seq != self._part.seq:
                replay.finish()
            self._part = part
            replay.take_payload(part.decoder, part.payload, part.change_count)
        replay.finish()
        remove_applied(self._connection, source_id)

    def _apply_table(self, table: Table, lines: Lines) -> None:
        source_id = self._source.source_id
        policy = RecordPolicy(source_id, self._on_error, self._on_conflict)
        try:
            count = apply_or_park(self._connection, policy, lines.spooled(table))
            if count:
                self.parked.append(Parking(table.name, record_count=count))
        except TableFailed as failed:
            self._fail(table, lines, failed)
        count = lines.spooled(table).count
        self.change_counts[table.name] = self.change_counts.get(table.name, 0) + count

    def _fail(self, table: Table, lines: Lines, failed: TableFailed) -> None:
        if not self._batch.is_single:
            # It may be all right one by one.
            raise stop_at(self._source.name, table.name, failed) from failed
        is_locked = isinstance(failed, TableLocked)
        is_copys = table.is_live and not isinstance(failed, CopyLocked)
        if isinstance(failed, TableLocked) and (is_copys or not self._sets_aside):
            # A copy in chunks has locks of its own, which are over soon.
            raise failed.error
        if self._on_error == "stop" and not is_locked:
            raise stop_at(self._source.name, table.name, failed) from failed
        is_parked = park(self._connection, self._source.source_id, table.name, failed)
        self._tables.forget()
        if is_parked:
            self._keep(table.name, lines)
            if not is_locked:
                self.parked.append(Parking(table.name, failed.reason))

    def _note_unknown(self, name: TableName) -> None:
        add_unknown_table(self._connection, self._source.source_id, name)

    def _keep(self, name: TableName, lines: Lines) -> None:
        messages = [lines.begin, *lines.changes]
        add_payload(
            *(self._connection, self._source.source_id, name, self._next_place()),
            decoder=lines.decoder,
            messages=messages,
        )

    def _next_place(self) -> Place:
        part = self._part
        if part is None:
            raise AssertionError("changes come out of a part")
        self._piece += 1
        return Place(
            seq=part.seq,
            part=part.part,
            piece=self._piece,
            first_lsn=part.first_lsn,
            last_lsn=part.last_lsn,
            last_commit_at=part.last_commit_at,
        )

    def _apply_ddl(self, lines: Lines) -> None:
        if not is_row(lines):
            return
        self._captured = captured = make_captured(self._source, lines, self._read_ddl_rows)
        # What a command did comes before its end, in rows of its own.
        self._command.extend(lines.changes)
        try:
            self._ddl.apply(self._connection, captured)
        except DdlStopped as stopped:
            if self._ddl_on_error == "stop" or not self._batch.is_single:
                raise
            self._park_ddl(captured, stopped, lines)
        if captured.row.get("kind") in ("start", "end"):
            self._command.clear()

    def _park_ddl(self, captured: CapturedDdl, stopped: DdlStopped, lines: Lines) -> None:
        """Let a statement wait with its tables, and the rest go on."""
        self._ddl.record_stop(self._connection, captured, stopped)
        log_id = int(captured.row["id"] or 0)
        place = self._next_place()
        statement = WaitingDdl(
            log_id=log_id,
            seq=place.seq,
            part=place.part,
            piece=place.piece,
            format=lines.decoder.format,
            encoding=lines.decoder.encoding,
            payload=lines.decoder.join([lines.begin, *self._command]),
        )
        source_id = self._source.source_id
        keep_ddl(self._connection, source_id, statement)
        parked = park_for_ddl(self._connection, source_id, stopped.tables, log_id, stopped.message)
        self._tables.forget()
        if stopped.is_copied:
            decide_to_retry(self._connection, source_id, log_id)
            logger.info(stopped.message, extra={"source": self._source.name, "hint": stopped.hint})
            return
        self.parked += [Parking(name, stopped.message) for name in parked]
        if not stopped.tables:
            logger.error(stopped.message, extra={"source": self._source.name})

    def _read_ddl_rows(self) -> Iterator[Mapping[str, str | None]]:
        if self._part is None:
            raise AssertionError("DDL comes out of a part")
        source_id, seq = self._source.source_id, self._part.seq
        keys = read_part_keys(self._connection, source_id, seq - 1, seq, (SERIAL_BUCKET,))
        for key in keys:
            part = read_part(self._connection, source_id, key)
            yield from read_rows(part.decoder, part.payload)
