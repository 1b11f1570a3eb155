"""Receiving a backlog: chunk after chunk through SQL, until the end of the source's WAL is near.

Chunks are read from a copy of the slot that ends with the session. So the source decodes one while
those before it are written to the spool, and the slot itself only advances over what is committed
there. Each chunk is whole transactions, so that between two of them streaming can take over.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from psycopg import errors

from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn, as_lsn
from pgrepl.receiver.postgres.assembler import Assembler
from pgrepl.receiver.postgres.loops.chunk_reader import ChunkReader
from pgrepl.receiver.postgres.loops.pull_waits import PullWaits
from pgrepl.receiver.postgres.slot.backlog import Chunk, Standing
from pgrepl.receiver.postgres.slot.slot_access import SlotAccess
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_writer import SpoolWriter

__all__ = ["PullLoop"]

logger = logging.getLogger(__name__)

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
        self._waits = PullWaits(
            stream=self._stream,
            assembler=assembler,
            writer=writer,
            surroundings=surroundings,
            timeout_s=timeout_s,
        )
        self._reader = ChunkReader(self._stream, assembler, self._waits)
        #: Up to where the slot was moved, and when.
        self._advanced = as_lsn(writer.flushed)
        self._advanced_at = time.monotonic()

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
                self._waits.hand_over()
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
            # Another session may have read from it, and more than its copy had.
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
            first = self._reader.await_first(began + self._settings.pull_patience_s)
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
        rows, byte_count = self._reader.read(first)
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

    def _settle(self) -> bool:
        """Write all that was received, and wait until it is durable; false: it is time to stop."""
        assembler, writer = self._assembler, self._writer
        assembler.flush()
        self._waits.hand_over()
        while not self._wakeup.is_stopping:
            if writer.is_idle:
                if assembler.received <= writer.flushed:
                    return True
                writer.put(assembler.position_batch())
            self._waits.await_writer()
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
            self._reader.end_statement()
            reach("receiver.after_advance")
        self._advanced, self._advanced_at = flushed, time.monotonic()

    def _give_up(self, chunk: Chunk) -> None:
        """Leave a chunk to streaming: it has a transaction too big to be kept, or lost changes."""
        with suppress(errors.QueryCanceled):
            self._reader.end_statement()
        if self._wakeup.is_stopping:
            return
        self._stream.reopen()
        self._backlog.give_up(chunk)
        what = "has lost changes" if self._reader.has_losses else "is too big to be pulled"
        logger.info("a chunk %s", what, extra={"until": chunk.upto})

    def _hurry(self) -> None:
        """Write what is whole, and leave the rest to the next receiver: also to move the slot."""
        deadline = time.monotonic() + self._settings.stop_s
        self._stream.cancel(_HURRIED_CANCEL_S)
        self._writer.has_more_to_read = False
        self._assembler.flush()
        while self._assembler.ready:
            self._writer.put(self._assembler.ready.popleft())
        while not self._writer.is_idle and time.monotonic() < deadline:
            self._waits.await_writer()
