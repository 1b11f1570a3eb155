"""A thread that writes batches to the target, so that a slow target never silences the receiver.

The receiving thread puts batches in and goes on talking to the source; how far it may run ahead is
its own decision, by ``pending_bytes``. Everything that can go wrong here ends the thread, and
``raise_error`` tells the receiving thread why.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from pgrepl.errors import SpoolError
from pgrepl.position import Position
from pgrepl.receiver.settings import ReceiverSettings
from pgrepl.receiver.spool.batch import Batch
from pgrepl.receiver.spool.spool_session import SpoolSession

__all__ = ["SpoolWriter"]

logger = logging.getLogger(__name__)

#: Receiving goes on when the spool has shrunk to this part of its limit.
_RESUME_AT = 0.9
_PAUSE_POLL_S = 0.5


class SpoolWriter:
    """Writes batches in the order they are put in."""

    def __init__(
        self,
        session: SpoolSession,
        *,
        start: Position,
        settings: ReceiverSettings,
        max_spool: int | None,
        may_pause: bool,
        wake: Callable[[], None],
    ) -> None:
        """Start the thread; ``wake`` is called in it after each commit and at its end."""
        self.flushed: Position = start
        self.spool_bytes = 0
        self.transaction_count = 0
        self.change_count = 0
        self.segment_count = 0
        self._uncommitted_count = 0
        self._session = session
        self._settings = settings
        self._max_spool = max_spool
        self._may_pause = may_pause
        self._wake = wake
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pending_count = 0
        self._pending_bytes = 0
        self._error: BaseException | None = None
        #: Whether the source has more than was read so far; whoever reads it says so.
        self.has_more_to_read = False
        #: Whether to wait while the spool is full; whoever reads in chunks waits between them.
        self.pauses = True
        self._is_stopping = threading.Event()
        self._unchecked_bytes = 0
        self._checked_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="pgrepl-writer", daemon=True)
        self._thread.start()

    @property
    def pending_bytes(self) -> int:
        """What waits, or is being written."""
        return self._pending_bytes

    @property
    def is_idle(self) -> bool:
        """Whether everything put in is committed."""
        return self._pending_count == 0

    @property
    def is_full(self) -> bool:
        """Whether the spool held more than it may when it was last looked at."""
        return self._max_spool is not None and self.spool_bytes >= self._max_spool

    def put(self, batch: Batch) -> None:
        """Let a batch be written after those before it."""
        with self._lock:
            self._pending_count += 1
            self._pending_bytes += batch.byte_count
        self._queue.put(batch)

    def raise_error(self) -> None:
        """Raise what ended the thread, if something did."""
        if self._error is not None:
            raise self._error

    def close(self, patience_s: float) -> bool:
        """End the thread; a commit that takes longer than this is abandoned with its session.

        Returns false when it was closed before.
        """
        if self._is_stopping.is_set():
            return False
        self._is_stopping.set()
        self._queue.put(None)
        self._thread.join(patience_s)
        if self._thread.is_alive():
            self._session.abandon()
            self._thread.join()
        return True

    def _run(self) -> None:
        try:
            while (batch := self._queue.get()) is not None:
                self._take(batch)
        except BaseException as exc:  # noqa: BLE001  the receiving thread raises it
            self._error = exc
        self._wake()

    def _take(self, batch: Batch) -> None:
        is_between = not self._session.is_in_transaction
        if is_between:
            self._check_spool(may_wait=bool(batch.parts))
        if self._is_stopping.is_set() and is_between:
            # Abandoned before it began: the source sends it again.
            return
        has_more = self.has_more_to_read or self._pending_count > 1
        self._session.write(batch, has_more=has_more)
        self._unchecked_bytes += batch.byte_count
        self._uncommitted_count += batch.change_count
        if batch.position is not None:
            self.flushed = batch.position
            self.change_count += self._uncommitted_count
            self._uncommitted_count = 0
        self.transaction_count += batch.transaction_count
        self.segment_count += batch.position is not None and bool(batch.parts)
        for (schema, table), reason in batch.losses.items():
            logger.warning("table needs a resync: %s", reason, extra={"table": f"{schema}.{table}"})
        with self._lock:
            self._pending_count -= 1
            self._pending_bytes -= batch.byte_count
        self._wake()

    def _check_spool(self, *, may_wait: bool) -> None:
        """Look how big the spool is now and then, and wait while it is too big."""
        settings = self._settings
        is_due = time.monotonic() - self._checked_at > settings.spool_check_s
        if not is_due and self._unchecked_bytes < settings.spool_check_bytes:
            return
        self._measure()
        limit = self._max_spool
        if limit is None or not self.is_full or not may_wait:
            return
        if not self._may_pause:
            raise SpoolError(
                f"the spool holds {self.spool_bytes} bytes of this source,"
                f" max_spool allows {limit}",
                hint="Run pgrepl replay; what was received so far is safe.",
            )
        if not self.pauses:
            return
        logger.warning(
            "receiving pauses: the spool is full; is pgrepl replay running?",
            extra={"spool_bytes": self.spool_bytes, "max_spool": limit},
        )
        while self.spool_bytes > limit * _RESUME_AT:
            if self._is_stopping.wait(_PAUSE_POLL_S):
                return
            self._measure()
        logger.info("receiving goes on", extra={"spool_bytes": self.spool_bytes})

    def _measure(self) -> None:
        self.spool_bytes = self._session.read_spool_bytes()
        self._checked_at = time.monotonic()
        self._unchecked_bytes = 0
