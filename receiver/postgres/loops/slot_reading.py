"""A slot that is read: pulled while there is a backlog, streamed otherwise, in turns."""

from __future__ import annotations

from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn, as_lsn
from pgrepl.postgres.sqlstate import translated
from pgrepl.receiver.postgres.assembler import Assembler
from pgrepl.receiver.postgres.loops.pull_loop import PullLoop
from pgrepl.receiver.postgres.loops.stream_loop import StreamLoop
from pgrepl.receiver.postgres.slot.backlog import Standing
from pgrepl.receiver.postgres.slot.slot_access import SlotAccess
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_writer import SpoolWriter

__all__ = ["SlotReading"]


class SlotReading:
    """Runs one loop after the other, with the same assembler."""

    def __init__(
        self,
        access: SlotAccess,
        assembler: Assembler,
        surroundings: Surroundings,
        *,
        timeout_s: float,
        pulled: Standing | None,
    ) -> None:
        """Take over a slot that is being read; ``timeout_s`` is the source's, 0 if none.

        ``pulled`` is what is to be pulled first; None: the server streams.
        """
        self.start = Lsn(assembler.received)
        self._access = access
        self._assembler = assembler
        self._surroundings = surroundings
        self._timeout_s = timeout_s
        self._pulled = pulled

    def run(self, writer: SpoolWriter) -> None:
        """Read until told to stop, or until the end that was asked for."""
        assembler, wakeup = self._assembler, self._surroundings.wakeup
        with translated(self._access.config.endpoint, "the stream broke"):
            while True:
                if self._pulled is None:
                    self._pulled = self._stream(writer)
                else:
                    self._pull(writer, self._pulled)
                    self._pulled = None
                if wakeup.is_stopping or assembler.is_finished:
                    return
                reach("receiver.at_switch")
                if self._pulled is not None and not self._access.pull(self._pulled):
                    self._pulled = None
                if self._pulled is None:
                    self._access.start_stream(as_lsn(writer.flushed))

    def _stream(self, writer: SpoolWriter) -> Standing | None:
        """Stream; returns what is better pulled, None at the end."""

        def is_far_behind() -> bool:
            standing = self._access.look(Lsn(self._assembler.received))
            return not writer.is_full and self._access.is_pulling_better(standing, is_pulling=False)

        loop = StreamLoop(
            stream=self._access.stream,
            assembler=self._assembler,
            writer=writer,
            surroundings=self._surroundings,
            timeout_s=self._timeout_s,
            is_far_behind=is_far_behind,
        )
        return self._access.look(as_lsn(writer.flushed)) if loop.run() else None

    def _pull(self, writer: SpoolWriter, standing: Standing) -> None:
        PullLoop(
            access=self._access,
            assembler=self._assembler,
            writer=writer,
            surroundings=self._surroundings,
            timeout_s=self._timeout_s,
        ).run(standing)
