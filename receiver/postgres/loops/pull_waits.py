"""What a loop that pulls waits for: the source, and the writer, which says when it has too much."""

from __future__ import annotations

import time
from select import POLLIN, poll

from pgrepl.errors import SourceUnavailable, TargetUnavailable
from pgrepl.receiver.postgres.assembler import Assembler
from pgrepl.receiver.postgres.loops.position_report import PositionReport
from pgrepl.receiver.postgres.loops.stream_loop import SOURCE_TIMEOUT_S
from pgrepl.receiver.postgres.slot.replication_stream import ReplicationStream
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_writer import SpoolWriter

__all__ = ["PullWaits"]


class PullWaits:
    """Waits, and does meanwhile what the clock asks for."""

    def __init__(
        self,
        *,
        stream: ReplicationStream,
        assembler: Assembler,
        writer: SpoolWriter,
        surroundings: Surroundings,
        timeout_s: float,
    ) -> None:
        """Take over an open session of the source; ``timeout_s`` is its own, 0 if none."""
        self._stream = stream
        self._assembler = assembler
        self._writer = writer
        self._settings = surroundings.settings
        self._wakeup = surroundings.wakeup
        self._notifier = surroundings.notifier
        self._silence_s = (timeout_s or SOURCE_TIMEOUT_S) + surroundings.settings.silence_s
        self.report = PositionReport(assembler, writer, surroundings.settings.report_s)
        self._poll = poll()
        self._poll.register(stream.pgconn.socket, POLLIN)
        self._poll.register(self._wakeup.descriptor, POLLIN)

    @property
    def is_stopping(self) -> bool:
        """Whether the program is to end."""
        return self._wakeup.is_stopping

    def await_source(self) -> None:
        """Wait for more of what the source is sending."""
        since = time.monotonic()
        while not self.wait(self._settings.status_s) and not self.is_stopping:
            if time.monotonic() - since > self._silence_s:
                raise SourceUnavailable(f"the source has been silent for {self._silence_s:.0f} s")

    def wait(self, timeout_s: float) -> bool:
        """Wait for the source or the writer; whether the source had something."""
        is_heard = False
        timeout_s = min(timeout_s, self._settings.status_s)
        for descriptor, _ in self._poll.poll(timeout_s * 1000):
            if descriptor == self._wakeup.descriptor:
                self._wakeup.clear()
            else:
                self._stream.read_input()
                is_heard = True
        self.tick()
        return is_heard

    def await_writer(self) -> None:
        """Wait until the writer did something."""
        poller = poll()
        poller.register(self._wakeup.descriptor, POLLIN)
        poller.poll(self._settings.status_s * 1000)
        self._wakeup.clear()
        self.tick()

    def hand_over(self) -> None:
        """Give the writer what is ready, and wait while it has too much."""
        ready, writer = self._assembler.ready, self._writer
        while ready:
            writer.put(ready.popleft())
            seen_bytes, since = writer.pending_bytes, time.monotonic()
            while writer.pending_bytes > self._settings.in_flight_bytes:
                if self.is_stopping:
                    return
                self.await_writer()
                if writer.pending_bytes != seen_bytes:
                    seen_bytes, since = writer.pending_bytes, time.monotonic()
                elif time.monotonic() - since > self._settings.pull_stall_s:
                    # Held any longer, the snapshot of our statement would keep vacuum from working.
                    raise TargetUnavailable(
                        "the target has written nothing for"
                        f" {self._settings.pull_stall_s:.0f} s while the source waited"
                    )

    def tick(self) -> None:
        """Do what the clock asks for."""
        self._writer.raise_error()
        self._notifier.alive()
        self.report.make_if_due(time.monotonic())
