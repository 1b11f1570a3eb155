"""One session of receiving: from the first frame to the end, or to an error.

One thread reads frames, assembles segments and talks to the source; another writes to the target.
The source hears from the first one on a timer, whatever the target does. While too much waits for
the target the first one does not read, so memory is bounded by ``in_flight_bytes``, two segments
and what two messages take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat
from select import POLLIN, poll

from pgrepl.errors import SourceUnavailable
from pgrepl.failpoint import reach
from pgrepl.lsn import as_lsn
from pgrepl.native import Connected, Native, native
from pgrepl.native.libpq import connected
from pgrepl.receiver.postgres.assembler import FRAME_BYTES, Assembler
from pgrepl.receiver.postgres.loops.position_report import PositionReport
from pgrepl.receiver.postgres.slot.protocol import XLOG_DATA, decode_keepalive
from pgrepl.receiver.postgres.slot.replication_stream import ReplicationStream
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_writer import SpoolWriter

__all__ = ["SOURCE_TIMEOUT_S", "StreamLoop"]

#: So much is read between two looks at the clock, counting for each message what it costs to keep.
_READ_BYTES = 1024 * 1024

#: What libpq is told each time that it is asked for a message.
_ASYNCHRONOUSLY = repeat(1)

#: Fewer messages than this are few.
_FEW = 64

#: How long the server may take to stop sending, before the connection is given up.
_END_S = 5.0

#: When the source has no timeout of its own.
SOURCE_TIMEOUT_S = 60.0


class StreamLoop:
    """Joins a stream, an assembler and a writer."""

    def __init__(
        self,
        *,
        stream: ReplicationStream,
        assembler: Assembler,
        writer: SpoolWriter,
        surroundings: Surroundings,
        timeout_s: float,
        is_far_behind: Callable[[], bool],
    ) -> None:
        """Take over parts that are ready to run; ``timeout_s`` is the source's, 0 if none.

        ``is_far_behind`` is asked now and then whether what is left is better pulled.
        """
        self._stream = stream
        self._assembler = assembler
        self._writer = writer
        self._settings = settings = surroundings.settings
        self._timeout_s = timeout_s or SOURCE_TIMEOUT_S
        self._wakeup = wakeup = surroundings.wakeup
        self._notifier = surroundings.notifier
        self._status_s = min(settings.status_s, self._timeout_s / 4)
        now = time.monotonic()
        self._status_at = now
        self._segment_since = now
        self._position_at = now
        self._heard_at = now
        self._is_far_behind = is_far_behind
        #: Since when there was always something to read.
        self._busy_since = now
        self._report = PositionReport(assembler, writer, settings.report_s)
        self._is_reply_due = False
        self._poll = poll()
        self._poll.register(stream.pgconn.socket, POLLIN)
        self._poll.register(wakeup.descriptor, POLLIN)

    def run(self) -> bool:
        """Receive until told to stop, until the assembler is finished, or until pulling is better.

        Returns whether pulling is better: then all that was received is written and confirmed, and
        the connection is free for it.
        """
        while not (self._wakeup.is_stopping or self._assembler.is_finished):
            count = self._read()
            self._report.count += count
            if count:
                self._heard_at = time.monotonic()
                self._tick(is_busy=True)
                if count < _FEW and not self._assembler.is_finished:
                    time.sleep(self._settings.nap_s)
                if self._is_pulling_better():
                    self._finish()
                    if self._wakeup.is_stopping:
                        break
                    self._stream.end(_END_S)
                    return True
            else:
                self._busy_since = time.monotonic()
                self._rest()
        else:
            self._finish()
        self._stream.close(patience_s=0.2 if self._wakeup.is_stopping else 2)
        return False

    def _is_pulling_better(self) -> bool:
        """Ask, when messages had no end for a while, and if it is the source that we wait for."""
        now = time.monotonic()
        if (
            now - self._busy_since < self._settings.pull_check_s
            or self._assembler.is_in_transaction
            or self._writer.pending_bytes > self._settings.in_flight_bytes // 2
        ):
            return False
        self._busy_since = now
        return self._is_far_behind()

    def _read(self) -> int:
        """Take the messages that are there, but not too many at once; return how many."""
        count = 0
        left_bytes = _READ_BYTES
        connection = self._connected()
        if native is not None and connection is not None:
            count, left_bytes = self._route(native, connection)
        if left_bytes > 0 and not self._assembler.is_finished:
            count += self._read_each(left_bytes)
        return count

    def _connected(self) -> Connected | None:
        """Return what the compiled core reads from."""
        return connected(self._stream.pgconn, self._stream.notices)

    def _route(self, core: Native, connection: Connected) -> tuple[int, int]:
        """Read as ``_read_each`` does, most of it in the compiled core.

        Returns how many messages that were, and the bytes that are left for it to read: 0 when all
        is read that is there.
        """
        assembler = self._assembler
        count = 0
        left_bytes = _READ_BYTES
        is_drained = False
        while assembler.can_route and left_bytes > 0:
            routed = assembler.route(core, connection, left_bytes)
            count += routed.message_count
            left_bytes -= routed.byte_count
            if routed.message_count:
                is_drained = False
                self._writer.has_more_to_read = True
            if routed.frame is not None:
                is_drained = False
                left_bytes -= len(routed.frame) + FRAME_BYTES
                # Notices belong to the frame in hand.
                self._take_notices()
                count += self._take_frame(memoryview(routed.frame))
            elif routed.status < 0:
                raise self._stream.ended()
            elif left_bytes > 0:
                if is_drained:
                    return count, 0
                self._take_notices()
                # More may be on its way: look once without waiting.
                self._stream.pgconn.consume_input()
                is_drained = True
        return count, left_bytes

    def _take_frame(self, frame: memoryview) -> int:
        if frame[0] == XLOG_DATA:
            return self._take([frame])
        self._take_keepalive(frame)
        return 1

    def _read_each(self, left_bytes: int) -> int:
        """Take messages one by one."""
        pgconn, notices = self._stream.pgconn, self._stream.notices
        frames: list[memoryview] = []
        count = 0
        is_drained = False
        for size, frame in map(pgconn.get_copy_data, _ASYNCHRONOUSLY):
            if size > 0:
                is_drained = False
                if frame[0] == XLOG_DATA and not notices:
                    frames.append(frame)
                else:
                    # Notices belong to the frame in hand, after those read so far.
                    count += self._take(frames)
                    self._take_notices()
                    if frame[0] == XLOG_DATA:
                        frames.append(frame)
                    else:
                        count += 1
                        self._take_keepalive(frame)
                    if self._assembler.is_finished:
                        break
                left_bytes -= size + FRAME_BYTES
                if left_bytes <= 0:
                    break
            elif size < 0:
                raise self._stream.ended()
            elif is_drained:
                break
            else:
                if notices:
                    # A change that is lost is all notice and no frame, and there may be millions.
                    count += self._take(frames)
                    self._take_notices()
                # More may be on its way: look once without waiting.
                pgconn.consume_input()
                is_drained = True
        del frame
        return count + self._take(frames)

    def _take(self, frames: list[memoryview]) -> int:
        """Take messages out of a list, and return how many they were."""
        count = len(frames)
        if frames:
            self._writer.has_more_to_read = True
        is_any_ready = self._assembler.take(frames)
        # One may be very big: it is not to be kept while the target is waited for.
        frames.clear()
        if is_any_ready:
            self._hand_over()
        return count

    def _take_keepalive(self, frame: memoryview) -> None:
        keepalive = decode_keepalive(frame)
        # The source sends one when it has sent all there is and waits for more.
        self._writer.has_more_to_read = False
        self._assembler.take_wal_end(keepalive.wal_end)
        if keepalive.is_reply_requested:
            self._is_reply_due = True
            self._send_status()

    def _take_notices(self) -> None:
        notices = self._stream.notices
        for severity, text in notices:
            self._assembler.take_notice(severity, text)
        notices.clear()

    def _hand_over(self) -> None:
        """Give the writer what is ready, and wait while it has too much."""
        ready = self._assembler.ready
        while ready:
            self._writer.put(ready.popleft())
            while self._writer.pending_bytes > self._settings.in_flight_bytes:
                if self._wakeup.is_stopping:
                    return
                self._await_writer(float("inf"))
                self._tick(is_busy=False)

    def _await_writer(self, deadline: float) -> None:
        """Wait until the writer did something, but not longer than the source may wait for us."""
        poller = poll()
        poller.register(self._wakeup.descriptor, POLLIN)
        left_s = max(deadline - time.monotonic(), 0)
        poller.poll(min(self._status_s, left_s) * 1000)
        self._wakeup.clear()
        # Nobody reads meanwhile, so silence would be ours.
        self._heard_at = time.monotonic()

    def _tick(self, *, is_busy: bool) -> None:
        """Do what the clock asks for."""
        self._writer.raise_error()
        now = time.monotonic()
        self._notifier.alive()
        if now - self._status_at >= self._status_s:
            self._send_status()
        self._report.make_if_due(now)
        if not self._assembler.has_segment:
            self._segment_since = now
        elif is_busy and now - self._segment_since >= self._settings.gather_s:
            self._segment_since = now
            self._assembler.flush()
            self._hand_over()
        if self._is_position_due(now):
            self._position_at = now
            self._is_reply_due = False
            self._writer.put(self._assembler.position_batch())

    def _rest(self) -> None:
        """Nothing is there to read: wait for more, and flush when it is quiet."""
        self._tick(is_busy=False)
        assembler = self._assembler
        if assembler.has_segment and self._writer.is_idle:
            if not self._wait(self._settings.quiet_s):
                assembler.flush()
                self._hand_over()
            return
        if not self._wait(self._status_s):
            silence_s = time.monotonic() - self._heard_at
            if silence_s > self._timeout_s + self._settings.silence_s:
                raise SourceUnavailable(f"the source has been silent for {silence_s:.0f} s")

    def _is_position_due(self, now: float) -> bool:
        """Whether to move on over traffic that was not for us, so that the source can forget it."""
        assembler, writer = self._assembler, self._writer
        if assembler.received <= writer.flushed or not assembler.is_settled or not writer.is_idle:
            return False
        return self._is_reply_due or now - self._position_at >= self._settings.idle_position_s

    def _wait(self, timeout_s: float) -> bool:
        """Wait for the source or the writer; whether the source had something."""
        is_heard = False
        for descriptor, _ in self._poll.poll(timeout_s * 1000):
            if descriptor == self._wakeup.descriptor:
                self._wakeup.clear()
                self._send_status()
            else:
                self._stream.read_input()
                self._heard_at = time.monotonic()
                is_heard = True
        return is_heard

    def _send_status(self) -> None:
        self._status_at = now = time.monotonic()
        self._stream.send_status(
            received=self._assembler.received,
            flushed=as_lsn(self._writer.flushed),
            # To a client that talks by itself an idle server says nothing, unless it is asked.
            wants_reply=now - self._heard_at > self._timeout_s / 2,
        )
        reach("receiver.after_feedback")

    def _finish(self) -> None:
        """Write what is whole, confirm it, and leave the rest to the next receiver."""
        deadline = float("inf")
        assembler, writer = self._assembler, self._writer
        # Whatever the source has left is for the next receiver.
        writer.has_more_to_read = False
        assembler.flush()
        while assembler.ready:
            writer.put(assembler.ready.popleft())
        # With a transaction left open on the target, only the next receiver can move on.
        self._is_reply_due = assembler.is_settled
        while time.monotonic() < deadline:
            if self._wakeup.is_stopping:
                deadline = min(deadline, time.monotonic() + self._settings.stop_s)
            self._tick(is_busy=False)
            if writer.is_idle and (assembler.received <= writer.flushed or not self._is_reply_due):
                break
            self._await_writer(deadline)
        self._send_status()
