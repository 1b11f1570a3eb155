"""Waits for the receivers to say that there is something to apply."""

from __future__ import annotations

import threading
import time

from psycopg.sql import SQL, Identifier

from pgrepl.config.dsn import Endpoint
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.pacing import Arrivals, Pause
from pgrepl.store.spool.spool_format import CHANNEL

__all__ = ["Listener", "wake"]

#: How soon a wait ends when the program is to stop.
_STOP_S = 0.2


def wake(connection: Connection) -> None:
    """Let whoever listens look at once, without news of a receiver."""
    connection.execute("select pg_notify(%s, '')", (CHANNEL,))


class Listener:
    """A session that listens and does nothing else, so that no notification passes unheard."""

    def __init__(self, target: Endpoint, stage: str = "replay", *, is_at_once: bool = True) -> None:
        """Begin to listen, at once or with the first wait: whoever ends soon may never wait."""
        self._arrivals = Arrivals()
        self._target = target
        self._stage = stage
        self._connection: Connection | None = None
        if is_at_once:
            self._connection = self._begin()

    def _begin(self) -> Connection:
        connection = connect(self._target, self._stage)
        try:
            with translated(self._target, "cannot listen"):
                connection.execute(SQL("listen {}").format(Identifier(CHANNEL)))
        except BaseException:
            connection.close()
            raise
        return connection

    def clear(self) -> None:
        """Forget that something was heard: whoever asks now sees what it was about."""
        if self._connection is not None:
            self._hear(0)
        self._arrivals.forget()

    def wait(self, seconds: float, gathering: Pause, is_stopping: threading.Event) -> None:
        """Wait until there is something, but no longer than so, and then for more to gather."""
        end = time.monotonic() + seconds
        while not is_stopping.is_set() and (left := end - time.monotonic()) > 0:
            if self._hear(min(left, _STOP_S)):
                self.pause(time.monotonic(), gathering, is_stopping)
                return

    def pause(self, begin: float, pause: Pause, is_stopping: threading.Event) -> None:
        """Wait until a pause that began at a time is over."""
        while not is_stopping.is_set():
            left = pause.left(time.monotonic() - begin, self._arrivals)
            if left <= 0:
                return
            self._hear(min(left, _STOP_S))

    def _hear(self, seconds: float) -> bool:
        """Take what was said, waiting for it no longer than so; say whether that was anything."""
        if self._connection is None:
            self._connection = self._begin()
        is_any = False
        for notify in self._connection.notifies(timeout=seconds, stop_after=1 if seconds else None):
            self._arrivals.hear(notify.payload)
            is_any = True
        return is_any

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            self._connection.close()
