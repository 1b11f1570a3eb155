"""What a JVM says on standard error, as lines of our own log: JSON where that is asked for.

Spark logs there, the JVM warns there, and Python's workers print there what they die of.
"""

from __future__ import annotations

import logging
import threading
from typing import IO

__all__ = ["JvmOutput"]

logger = logging.getLogger(__name__)

#: Said by every JVM that Spark starts since 4.0, and of no use to anybody.
_NOISE = ("WARNING: Using incubator modules:",)
#: Whoever still holds the pipe when the JVM has ended is not waited for.
_PATIENCE_S = 1.0
#: Longer lines are cut into several.
_LINE_BYTES = 1 << 16


class JvmOutput:
    """Reads until the last process that writes there has ended."""

    def __init__(self, stream: IO[bytes]) -> None:
        """Begin to read."""
        self._stream = stream
        self._thread = threading.Thread(target=self._read, name="jvm-output", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Let what was said before the end be logged."""
        self._thread.join(_PATIENCE_S)

    def _read(self) -> None:
        with self._stream:
            while line := self._stream.readline(_LINE_BYTES):
                text = line.decode(errors="replace").rstrip()
                if text and not text.startswith(_NOISE):
                    logger.warning("%s", text)
