"""A pipe that ends the wait of the receiving thread: for the writer, and for signals."""

from __future__ import annotations

import os
import select
from contextlib import suppress

__all__ = ["Wakeup"]


class Wakeup:
    """Wakes a thread that polls ``descriptor``; also says whether it is time to stop."""

    def __init__(self) -> None:
        """Open the pipe."""
        self.descriptor, self._writing = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._writing, False)
        self.is_stopping = False

    def wake(self) -> None:
        """End the wait; safe in any thread and in a signal handler."""
        # A full pipe wakes as well as a fuller one, and after the end nobody waits.
        with suppress(OSError):
            os.write(self._writing, b"\0")

    def stop(self) -> None:
        """Ask the receiver to end at the next boundary of a transaction."""
        self.is_stopping = True
        self.wake()

    def clear(self) -> None:
        """Forget the wakes so far."""
        with suppress(BlockingIOError):
            while os.read(self.descriptor, 4096):
                pass

    def wait(self, seconds: float) -> None:
        """Wait until it is woken, or until the time is over."""
        select.select([self.descriptor], [], [], seconds)
        self.clear()

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.descriptor)
        os.close(self._writing)
