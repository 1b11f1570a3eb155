"""Waits for the receivers to say that there is something to apply."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from psycopg.sql import SQL, Identifier

from pgrepl.config.dsn import Endpoint
from pgrepl.postgres.connect import connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.spool import CHANNEL, MORE

__all__ = ["Listener"]

#: How soon a wait ends when the program is to stop.
_STOP_S = 0.2


class Listener:
    """A session that listens and does nothing else, so that no notification passes unheard."""

    def __init__(self, target: Endpoint) -> None:
        """Begin to listen."""
        self._target = target
        self._connection = connect(target, "replay")
        with translated(target, "cannot listen"):
            self._connection.execute(SQL("listen {}").format(Identifier(CHANNEL)))

    def clear(self) -> None:
        """Forget what was heard: whoever asks now sees what it was about."""
        for _ in self._connection.notifies(timeout=0):
            pass

    def wait(self, seconds: float, is_stopping: threading.Event) -> None:
        """Wait until there is something, but no longer than so."""
        self._wait(seconds, is_stopping, lambda _: True)

    def wait_for_rest(self, seconds: float, is_stopping: threading.Event) -> None:
        """Wait until a receiver has no more at hand, but no longer than so."""
        self._wait(seconds, is_stopping, lambda news: not news.endswith(MORE))

    def _wait(
        self, seconds: float, is_stopping: threading.Event, is_enough: Callable[[str], bool]
    ) -> None:
        end = time.monotonic() + seconds
        while not is_stopping.is_set() and (left := end - time.monotonic()) > 0:
            heard = self._connection.notifies(timeout=min(left, _STOP_S), stop_after=1)
            if any(is_enough(notify.payload) for notify in heard):
                return

    def close(self) -> None:
        """End the session."""
        self._connection.close()
