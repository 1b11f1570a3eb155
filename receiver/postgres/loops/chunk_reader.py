"""Reading one chunk of a backlog: the rows of a COPY, most of them in the compiled core."""

from __future__ import annotations

import time
from itertools import repeat

import psycopg
from psycopg import errors, pq

from pgrepl.native import Connected, Native, native
from pgrepl.native.libpq import connected
from pgrepl.receiver.postgres.assembler import FRAME_BYTES, Assembler
from pgrepl.receiver.postgres.loops.pull_waits import PullWaits
from pgrepl.receiver.postgres.slot.protocol import (
    COPY_HEADER_BYTES,
    COPY_ROW_FRAMING,
    COPY_TRAILER_BYTES,
)
from pgrepl.receiver.postgres.slot.replication_stream import ReplicationStream

__all__ = ["ChunkReader"]

#: So much is read between two looks at the clock, counting for each row what it costs to keep.
_READ_BYTES = 1024 * 1024

_ASYNCHRONOUSLY = repeat(1)


class ChunkReader:
    """Gives the rows of a statement to an assembler."""

    def __init__(self, stream: ReplicationStream, assembler: Assembler, waits: PullWaits) -> None:
        """Take over an open session of the source."""
        self._stream = stream
        self._assembler = assembler
        self._waits = waits
        #: Of the chunk in hand.
        self._taken_bytes = 0
        #: Whether changes of it were not sent.
        self.has_losses = False

    def await_first(self, deadline: float) -> memoryview | None:
        """Return the first data of a COPY; None when it takes too long, or when it is time to stop.

        The source sends nothing but notices before it has decoded the whole chunk. When one says
        that changes were not sent it is None too: which of the transactions lost them, before or
        after DDL, is told only where notices come in their place.
        """
        pgconn = self._stream.pgconn
        self.has_losses = False
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
                    return None if self.has_losses else frame
                if size < 0:
                    raise _error(pgconn.get_result())
            self._take_notices()
            left_s = deadline - time.monotonic()
            if self._waits.is_stopping or left_s <= 0 or self.has_losses:
                return None
            self._waits.wait(left_s)

    def read(self, first: memoryview) -> tuple[int, int]:
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
        if not self._waits.is_stopping:
            self.end_statement()
        return rows, self._taken_bytes

    def _route_rows(self, core: Native, connection: Connected) -> tuple[int, bool]:
        """Read as ``_read_rows`` does, most of it in the compiled core.

        Returns how many rows that were, and whether the COPY ended with them.
        """
        rows = 0
        is_drained = False
        while self._assembler.can_route and not self._waits.is_stopping:
            routed = self._assembler.route(core, connection, _READ_BYTES, COPY_ROW_FRAMING)
            rows += routed.message_count
            self._waits.report.count += routed.message_count
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
                self._waits.await_source()
            is_drained = False
            self._waits.tick()
        return rows, self._waits.is_stopping

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
            if size < 0 or self._waits.is_stopping:
                break
            self._waits.tick()
            if size == 0:
                self._waits.await_source()
        del frame
        return rows

    def _take(self, frames: list[memoryview]) -> int:
        """Take rows out of a list, and return how many they were."""
        if frames and len(frames[-1]) == COPY_TRAILER_BYTES:
            frames.pop()
        count = len(frames)
        self._waits.report.count += count
        is_any_ready = self._assembler.take(frames, COPY_ROW_FRAMING)
        # One may be very big: it is not to be kept while the target is waited for.
        frames.clear()
        if is_any_ready:
            self._waits.hand_over()
        return count

    def _take_notices(self) -> None:
        """Heed what the plugin said, before all rows."""
        notices = self._stream.notices
        if any(self._assembler.may_lose(*notice) for notice in notices):
            self.has_losses = True
        for severity, text in () if self.has_losses else notices:
            self._assembler.take_notice(severity, text)
        notices.clear()

    def end_statement(self) -> None:
        """Wait for the end of the statement in hand, and raise what it failed with."""
        pgconn = self._stream.pgconn
        error: psycopg.Error | None = None
        while not self._waits.is_stopping:
            if pgconn.is_busy():
                self._waits.await_source()
                continue
            result = pgconn.get_result()
            if result is None:
                break
            if result.status == pq.ExecStatus.FATAL_ERROR:
                error = errors.error_from_result(result)
            elif result.status == pq.ExecStatus.COPY_OUT:
                # Rows of a statement that is given up.
                while not self._waits.is_stopping and (size := pgconn.get_copy_data(1)[0]) >= 0:
                    if size == 0:
                        self._waits.await_source()
        if error is not None:
            raise error


def _error(result: pq.abc.PGresult | None) -> psycopg.Error:
    """Return why a COPY failed."""
    if result is None:
        return psycopg.OperationalError("the server ended the statement without a result")
    return errors.error_from_result(result)
