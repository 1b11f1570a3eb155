"""Writes down how sources fare, every ten seconds, by whoever holds the lock: exactly one does."""

from __future__ import annotations

import logging
import time
from contextlib import suppress

import psycopg

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import Config
from pgrepl.errors import PgreplError
from pgrepl.monitor.alarm import Alarm
from pgrepl.postgres.advisory_locks import try_lock
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.status import Status
from pgrepl.status.history import look_of
from pgrepl.store.migrations import has_step, read_version
from pgrepl.store.monitoring.alerts import ALERT_STEP
from pgrepl.store.monitoring.history import HISTORY_STEP, LOOK_S, record_looks, thin_out

__all__ = ["Recorder"]

logger = logging.getLogger(__name__)

_LOCK = "history"
_PATIENCE_S = 5

#: Who may not write, or finds that another one does, looks again so much later.
_AGAIN_S = 60.0

#: Old intervals are removed so often.
_THIN_OUT_S = 300.0


class Recorder:
    """Takes every status that was read; use it from one thread."""

    def __init__(self) -> None:
        """Prepare; nothing is connected yet."""
        self._target: Endpoint | None = None
        self._connection: Connection | None = None
        self._next_at = 0.0
        self._thin_out_at = 0.0
        self._complaint: str | None = None
        self._alarm: Alarm | None = None

    def take(self, status: Status, config: Config) -> None:
        """Write down a status, if it is time; it never fails who calls."""
        now = time.monotonic()
        if now < self._next_at:
            return
        target = config.target.endpoint
        if target != self._target:
            self.close()
            self._target = target
        # A little early: looks do not come to the second.
        self._next_at = now + LOOK_S * 0.9
        try:
            with translated(target, "cannot write the history"):
                connection = self._open(target)
                if connection is None:
                    self._next_at = now + _AGAIN_S
                    return
                self._write(connection, status, now)
                self._sound(connection, status, config)
        except PgreplError as exc:
            self.close()
            self._next_at = now + _AGAIN_S
            if exc.message != self._complaint:
                logger.warning("history: %s", exc.message, extra={"hint": exc.hint})
            self._complaint = exc.message

    def close(self) -> None:
        """Let another one write."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _open(self, target: Endpoint) -> Connection | None:
        """Return the session that holds the lock; None when there is nothing to write into."""
        if self._connection is not None:
            return self._connection
        connection = connect(target, "history", patience_s=_PATIENCE_S)
        is_there = read_version(connection) and has_step(connection, HISTORY_STEP)
        if is_there and try_lock(connection, _LOCK):
            self._connection = connection
            return connection
        connection.close()
        return None

    def _sound(self, connection: Connection, status: Status, config: Config) -> None:
        """Tell of what is wrong; who writes the history is who does."""
        if self._alarm is None or self._alarm.config != config.alerts:
            self._alarm = Alarm(config.alerts)
        if self._alarm.is_on and has_step(connection, ALERT_STEP):
            self._alarm.look(connection, status)

    def _write(self, connection: Connection, status: Status, now: float) -> None:
        looks = [look_of(source, status.at) for source in status.sources]
        record_looks(connection, [look for look in looks if look is not None])
        self._complaint = None
        if now >= self._thin_out_at:
            thin_out(connection)
            self._thin_out_at = now + _THIN_OUT_S
