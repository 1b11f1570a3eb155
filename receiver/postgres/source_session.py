"""An ordinary session on the source, for questions that follow one another.

A server takes ten times as long to start a session as to answer in it. When receiving starts there
are several questions within milliseconds; later there are few, and none for hours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from pgrepl.config.model import SourceConfig
from pgrepl.errors import PgreplError
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated

__all__ = ["SourceSession"]

T = TypeVar("T")

#: One that was idle for longer may have been dropped on the way without a word.
_IDLE_S = 5.0


class SourceSession:
    """Asks the source; between ``keep`` and ``close`` in the same session while that is fresh."""

    def __init__(self, config: SourceConfig) -> None:
        """Prepare; nothing is connected yet."""
        self.config = config
        self._connection: Connection | None = None
        self._used_at = 0.0
        self._is_kept = False

    def keep(self) -> None:
        """Leave the session open for the next question."""
        self._is_kept = True

    def close(self) -> None:
        """End it; the next question has one of its own."""
        self._is_kept = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, action: str, question: Callable[[Connection], T]) -> T:
        """Return what a question says that leaves nothing behind in the session.

        Raises
        ------
        SourceError
            naming what was to be done.

        """
        connection = self._take()
        if connection is not None:
            try:
                return self._ask(connection, action, question)
            except PgreplError:
                is_ended = connection.broken
                connection.close()
                if not is_ended:
                    raise
                # It was ended while it was idle: that says nothing of the source as it is now.
        connection = connect(self.config.endpoint, "receive")
        try:
            return self._ask(connection, action, question)
        except BaseException:
            connection.close()
            raise

    def _take(self) -> Connection | None:
        """Return the session that is open, if it was used a moment ago."""
        connection, self._connection = self._connection, None
        if connection is not None and time.monotonic() - self._used_at > _IDLE_S:
            connection.close()
            return None
        return connection

    def _ask(self, connection: Connection, action: str, question: Callable[[Connection], T]) -> T:
        with translated(self.config.endpoint, action):
            answer = question(connection)
        if self._is_kept:
            self._connection, self._used_at = connection, time.monotonic()
        else:
            connection.close()
        return answer
