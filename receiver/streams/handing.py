"""Batches go to the writer no faster than the target takes them."""

from __future__ import annotations

from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.batch import Batch
from pgrepl.receiver.spool.spool_writer import SpoolWriter

__all__ = ["Handing", "StoppedInside"]

_WAIT_S = 0.05


class StoppedInside(Exception):  # noqa: N818  nothing is wrong
    """It was told to stop inside a segment: nothing of that is committed."""


class Handing:
    """Hands batches to a writer."""

    def __init__(self, writer: SpoolWriter, surroundings: Surroundings) -> None:
        """Take what writes, and what says when to stop."""
        self._writer = writer
        self._limit_bytes = surroundings.settings.in_flight_bytes
        self._wakeup = surroundings.wakeup
        self._notifier = surroundings.notifier

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the target that it is better to wait."""
        return self._writer.pending_bytes > self._limit_bytes

    def put_part(self, batch: Batch) -> None:
        """Hand over a part of a segment that goes on, when there is room for it.

        Raises
        ------
        StoppedInside
            when it is to stop; the segment is not finished, and comes again.

        """
        while self.is_full:
            self.check()
            if self._wakeup.is_stopping:
                raise StoppedInside
            self._wakeup.wait(_WAIT_S)
        self._writer.put(batch)

    def check(self) -> None:
        """Say that we live, and raise what ended the writer, if something did."""
        self._writer.raise_error()
        self._notifier.alive()

    def finish(self) -> None:
        """Wait until all is written, unless told to stop."""
        while not self._writer.is_idle and not self._wakeup.is_stopping:
            self._writer.raise_error()
            self._wakeup.wait(_WAIT_S)
        self._writer.raise_error()
