"""Receiving a backlog: chunk after chunk through SQL, until the end of the source's WAL is near.

Chunks are read from a copy of the slot that ends with the session. So the source decodes one while
those before it are written to the spool, and the slot itself only advances over what is committed
there. Each chunk is whole transactions, so that between two of them streaming can take over.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from itertools import repeat
from select import POLLIN, poll

import psycopg
from psycopg import errors, pq

from pgrepl.errors import SourceUnavailable, TargetUnavailable
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn, as_lsn
from pgrepl.native import Connected, Native, native
from pgrepl.native.libpq import connected
from pgrepl.receiver.postgres.assembler import FRAME_BYTES, Assembler
from pgrepl.receiver.postgres.backlog import Chunk, Standing
from pgrepl.receiver.postgres.position_report import PositionReport
from pgrepl.receiver.postgres.protocol import (
    COPY_HEADER_BYTES,
    COPY_ROW_FRAMING,
    COPY_TRAILER_BYTES,
)
from pgrepl.receiver.postgres.slot_access import SlotAccess
from pgrepl.receiver.postgres.stream_loop import SOURCE_TIMEOUT_S
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_writer import SpoolWriter

__all__ = ["PullLoop"]

logger = logging.getLogger(__name__)

#: So much is read between two looks at the clock, counting for each row what it costs to keep.
_READ_BYTES = 1024 * 1024

_ASYNCHRONOUSLY = repeat(1)

#: How long a statement may take to end when it is cancelled, before the connection is given up.
_CANCEL_S = 10.0
#: ... and how long the request itself when there is no time.
_HURRIED_CANCEL_S = 0.2


class PullLoop:
    """Joins a slot, an assembler and a writer."""

    def __init__(
        self,
        *,
        access: SlotAccess,
        assembler: Assembler,
        writer: SpoolWriter,
        surroundings: Surroundings,
        timeout_s: float,
    ) -> None:
        """Take over a slot that is ready to be pulled; ``timeout_s`` is the source's, 0 if none."""
        self._access = access
        self._stream = access.stream
        self._backlog = access.backlog
        self._assembler = assembler
        self._writer = writer
        self._settings = surroundings.settings
        self._wakeup = surroundings.wakeup
        self._notifier = surroundings.notifier
        self._silence_s = (timeout_s or SOURCE_TIMEOUT_S) + surroundings.settings.silence_s
        self._report = PositionReport(assembler, writer, surroundings.settings.report_s)
        #: Of the chunk in hand.
        self._taken_bytes = 0
        #: Up to where the slot was moved, and when.
        self._advanced = as_lsn(writer.flushed)
        self._advanced_at = time.monotonic()
        self._poll = poll()
        self._poll.register(self._stream.pgconn.socket, POLLIN)
        self._poll.register(self._wakeup.descriptor, POLLIN)

    @property
    def _is_over(self) -> bool:
        return self._wakeup.is_stopping or self._assembler.is_finished

    def run(self, standing: Standing) -> None:
        """Pull until told to stop, until the assembler is finished, or until streaming is better.

        When streaming is better, all that was received is written.
        """
        self._writer.pauses = False
        self._writer.has_more_to_read = True
        try:
            left: Standing | None = standing
            while left is not None and self._pull(self._backlog.plan(left)):
                left = self._look_ahead()
                # Whoever waits for more before they begin need not wait any longer.
                self._writer.has_more_to_read = left is not None
                self._assembler.flush()
                self._hand_over()
                self._advance_if_due()
            if self._settle():
                self._end(has_copy=left is None)
        finally:
            self._writer.pauses = True
        if self._wakeup.is_stopping:
            self._hurry()

    def _end(self, *, has_copy: bool) -> None:
        """Leave the slot to whoever reads it next: all that was received is durable."""
        if self._assembler.is_finished:
            self._advance()
            # Somebody else may have read from it, and more than its copy had.
            self._access.look(as_lsn(self._writer.flushed))
        elif has_copy:
            self._stream.drop_copy()

    def _look_ahead(self) -> Standing | None:
        """Return what is left to be pulled; None when that is nothing, or better streamed."""
        if self._is_over:
            return None
        standing = self._access.look_ahead(Lsn(self._assembler.received))
        is_better = self._access.is_pulling_better(standing, is_pulling=True)
        return standing if is_better and not self._writer.is_full else None

    def _pull(self, chunk: Chunk) -> bool:
        """Read a chunk; false when it was not to be had in one call, or when it is time to stop."""
        reach("receiver.before_chunk")
        began = time.monotonic()
        self._stream.read_copy(chunk)
        try:
            first = self._await_first(began + self._settings.pull_patience_s)
        except errors.ConfigurationLimitExceeded:
            # Too many temporary files.
            self._give_up(chunk)
            return False
        if first is None:
            if not self._wakeup.is_stopping:
                self._stream.cancel(_CANCEL_S)
                self._give_up(chunk)
            return False
        decode_s = time.monotonic() - began
        reach("receiver.after_chunk")
        rows, byte_count = self._read(first)
        if self._wakeup.is_stopping:
            return False
        logger.debug(
            "pulled",
            extra={
                "rows": rows,
                "bytes": byte_count,
                "decode_s": round(decode_s, 3),
                "in_s": round(time.monotonic() - began, 3),
            },
        )
        self._backlog.learn(chunk, rows=rows, byte_count=byte_count, decode_s=decode_s)
        self._assembler.end_chunk(chunk.upto if rows < chunk.max_rows else None)
        return True

    def _await_first(self, deadline: float) -> memoryview | None:
        """Return the first data of a COPY; None when it takes too long, or when it is time to stop.

        The source sends nothing but notices before it has decoded the whole chunk.
        """
        pgconn = self._stream.pgconn
        is_copying = False
        while True:
            if not is_copying and not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None or result.status != pq.ExecStatus.COPY_OUT:
                    raise _error(result)
                is_copying = True
            if is_copying:
                frame: memoryview
                size, frame = pgconn.get_copy_data(1)
                if size > 0:
                    self._take_notices()
                    return frame
                if size < 0:
                    raise _error(pgconn.get_result())
            self._take_notices()
            left_s = deadline - time.monotonic()
            if self._wakeup.is_stopping or left_s <= 0:
                return None
            self._wait(left_s)

    def _read(self, first: memoryview) -> tuple[int, int]:
        """Take the rows of a COPY, and return how many they were, and their size."""
        self._taken_bytes = len(first)
        rows = self._take([first[COPY_HEADER_BYTES:]])
        del first
        connection = connected(self._stream.pgconn, self._stream.notices)
        has_ended = False
        if native is not None and connection is not None:
            routed, has_ended = self._route_rows(native, connection)
            rows += routed
        if not has_ended:
            rows += self._read_rows()
        if not self._wakeup.is_stopping:
            self._end_statement()
        return rows, self._taken_bytes

    def _route_rows(self, core: Native, connection: Connected) -> tuple[int, bool]:
        """Read as ``_read_rows`` does, most of it in the compiled core.

        Returns how many rows that were, and whether the COPY ended with them.
        """
        rows = 0
        is_drained = False
        while self._assembler.can_route and not self._wakeup.is_stopping:
            routed = self._assembler.route(core, connection, _READ_BYTES, COPY_ROW_FRAMING)
            rows += routed.message_count
            self._report.count += routed.message_count
            self._taken_bytes += routed.byte_count - routed.message_count * FRAME_BYTES
            if routed.frame is not None:
                self._take_notices()
                rows += self._take([memoryview(routed.frame)])
                self._taken_bytes += len(routed.frame)
            elif routed.status < 0:
                return rows, True
            elif routed.status == 0 and not is_drained:
                # More may be on its way: look once without waiting.
                self._stream.pgconn.consume_input()
                is_drained = True
                continue
            elif routed.status == 0:
                self._await_source()
            is_drained = False
            self._tick()
        return rows, self._wakeup.is_stopping

    def _read_rows(self) -> int:
        pgconn = self._stream.pgconn
        frames: list[memoryview] = []
        rows = 0
        left_bytes = _READ_BYTES
        is_drained = False
        for size, frame in map(pgconn.get_copy_data, _ASYNCHRONOUSLY):
            if size > 0:
                is_drained = False
                frames.append(frame)
                self._taken_bytes += size
                left_bytes -= size + FRAME_BYTES
                if left_bytes > 0:
                    continue
            elif size == 0 and not is_drained:
                # More may be on its way: look once without waiting.
                pgconn.consume_input()
                is_drained = True
                continue
            left_bytes = _READ_BYTES
            rows += self._take(frames)
            if size < 0 or self._wakeup.is_stopping:
                break
            self._tick()
            if size == 0:
                self._await_source()
        del frame
        return rows

    def _take(self, frames: list[memoryview]) -> int:
        """Take rows out of a list, and return how many they were."""
        if frames and len(frames[-1]) == COPY_TRAILER_BYTES:
            frames.pop()
        count = len(frames)
        self._report.count += count
        is_any_ready = self._assembler.take(frames, COPY_ROW_FRAMING)
        # One may be very big: it is not to be kept while the target is waited for.
        frames.clear()
        if is_any_ready:
            self._hand_over()
        return count

    def _take_notices(self) -> None:
        """Heed what the plugin said: before all rows, so a table may be marked a little early."""
        notices = self._stream.notices
        for severity, text in notices:
            self._assembler.take_notice(severity, text)
        notices.clear()

    def _hand_over(self) -> None:
        """Give the writer what is ready, and wait while it has too much."""
        ready, writer = self._assembler.ready, self._writer
        while ready:
            writer.put(ready.popleft())
            seen_bytes, since = writer.pending_bytes, time.monotonic()
            while writer.pending_bytes > self._settings.in_flight_bytes:
                if self._wakeup.is_stopping:
                    return
                self._await_writer()
                if writer.pending_bytes != seen_bytes:
                    seen_bytes, since = writer.pending_bytes, time.monotonic()
                elif time.monotonic() - since > self._settings.pull_stall_s:
                    # Held any longer, the snapshot of our statement would keep vacuum from working.
                    raise TargetUnavailable(
                        "the target has written nothing for"
                        f" {self._settings.pull_stall_s:.0f} s while the source waited"
                    )

    def _settle(self) -> bool:
        """Write all that was received, and wait until it is durable; false: it is time to stop."""
        assembler, writer = self._assembler, self._writer
        assembler.flush()
        self._hand_over()
        while not self._wakeup.is_stopping:
            if writer.is_idle:
                if assembler.received <= writer.flushed:
                    return True
                writer.put(assembler.position_batch())
            self._await_writer()
        return False

    def _advance_if_due(self) -> None:
        """Move the slot now and then: each time the source reads again what was not confirmed."""
        if time.monotonic() - self._advanced_at >= self._settings.pull_advance_s:
            self._advance()

    def _advance(self) -> None:
        """Let the source forget what is durable on the target."""
        flushed = as_lsn(self._writer.flushed)
        if flushed > self._advanced:
            reach("receiver.before_advance")
            self._stream.advance(flushed)
            self._end_statement()
            reach("receiver.after_advance")
        self._advanced, self._advanced_at = flushed, time.monotonic()

    def _end_statement(self) -> None:
        """Wait for the end of the statement in hand, and raise what it failed with."""
        pgconn = self._stream.pgconn
        error: psycopg.Error | None = None
        while not self._wakeup.is_stopping:
            if pgconn.is_busy():
                self._await_source()
                continue
            result = pgconn.get_result()
            if result is None:
                break
            if result.status == pq.ExecStatus.FATAL_ERROR:
                error = errors.error_from_result(result)
            elif result.status == pq.ExecStatus.COPY_OUT:
                # Rows of a statement that is given up.
                while not self._wakeup.is_stopping and (size := pgconn.get_copy_data(1)[0]) >= 0:
                    if size == 0:
                        self._await_source()
        if error is not None:
            raise error

    def _give_up(self, chunk: Chunk) -> None:
        """Leave a chunk to streaming: there is a transaction in it that is too big to be kept."""
        with suppress(errors.QueryCanceled):
            self._end_statement()
        if self._wakeup.is_stopping:
            return
        self._stream.reopen()
        self._backlog.give_up(chunk)
        logger.info("a chunk is too big to be pulled", extra={"until": chunk.upto})

    def _await_source(self) -> None:
        """Wait for more of what the source is sending."""
        since = time.monotonic()
        while not self._wait(self._settings.status_s) and not self._wakeup.is_stopping:
            if time.monotonic() - since > self._silence_s:
                raise SourceUnavailable(f"the source has been silent for {self._silence_s:.0f} s")

    def _wait(self, timeout_s: float) -> bool:
        """Wait for the source or the writer; whether the source had something."""
        is_heard = False
        timeout_s = min(timeout_s, self._settings.status_s)
        for descriptor, _ in self._poll.poll(timeout_s * 1000):
            if descriptor == self._wakeup.descriptor:
                self._wakeup.clear()
            else:
                self._stream.read_input()
                is_heard = True
        self._tick()
        return is_heard

    def _await_writer(self) -> None:
        """Wait until the writer did something."""
        poller = poll()
        poller.register(self._wakeup.descriptor, POLLIN)
        poller.poll(self._settings.status_s * 1000)
        self._wakeup.clear()
        self._tick()

    def _tick(self) -> None:
        """Do what the clock asks for."""
        self._writer.raise_error()
        self._notifier.alive()
        self._report.make_if_due(time.monotonic())

    def _hurry(self) -> None:
        """Write what is whole, and leave the rest to the next receiver: also to move the slot."""
        deadline = time.monotonic() + self._settings.stop_s
        self._stream.cancel(_HURRIED_CANCEL_S)
        self._writer.has_more_to_read = False
        self._assembler.flush()
        while self._assembler.ready:
            self._writer.put(self._assembler.ready.popleft())
        while not self._writer.is_idle and time.monotonic() < deadline:
            self._await_writer()


def _error(result: pq.abc.PGresult | None) -> psycopg.Error:
    """Return why a COPY failed."""
    if result is None:
        return psycopg.OperationalError("the server ended the statement without a result")
    return errors.error_from_result(result)
