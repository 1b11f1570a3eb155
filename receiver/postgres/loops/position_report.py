"""A line in the log now and then: how far receiving is, and how fast."""

from __future__ import annotations

import logging
import time

from pgrepl.lsn import Lsn
from pgrepl.receiver.postgres.assembler import Assembler
from pgrepl.receiver.spool.spool_writer import SpoolWriter

__all__ = ["PositionReport"]

logger = logging.getLogger(__name__)


class PositionReport:
    """Counts messages, and reports when it is time."""

    def __init__(self, assembler: Assembler, writer: SpoolWriter, interval_s: float) -> None:
        """Begin with none."""
        self._assembler = assembler
        self._writer = writer
        self._interval_s = interval_s
        self._since = time.monotonic()
        #: Messages since the last report.
        self.count = 0

    def make_if_due(self, now: float) -> None:
        """Report, if the last one was long enough ago."""
        elapsed_s = now - self._since
        if elapsed_s < self._interval_s:
            return
        logger.info(
            "position",
            extra={
                "received": Lsn(self._assembler.received),
                "flushed": self._writer.flushed,
                "messages_per_s": round(self.count / elapsed_s),
                "spool_bytes": self._writer.spool_bytes,
            },
        )
        self._since = now
        self.count = 0
