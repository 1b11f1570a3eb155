"""Say for whom a statement waits, and end it when the resync is cancelled.

A statement that waits for a lock hears nothing. A thread looks for it, with sessions that it opens
only when the statement lasts.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import PgreplError
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.resync.report import CancelledError
from pgrepl.store.locked import find_blockers
from pgrepl.store.resync.running_resyncs import is_any_cancelled

__all__ = ["TOLD_AFTER_S", "hearing_cancel", "saying_for_whom"]

logger = logging.getLogger(__name__)

_STAGE = "basebackup"
#: Who waits longer than this says for whom.
TOLD_AFTER_S = 2.0
_LOOK_S = 0.5


@contextmanager
def saying_for_whom(
    waiting: tuple[Endpoint, Connection],
    target: Endpoint,
    resync_ids: Sequence[int],
    patience_s: float | None = None,
) -> Iterator[None]:
    """Say for whom a session waits inside the block, and end what it waits in when it is cancelled.

    Raises
    ------
    CancelledError
        when one of the resyncs is cancelled while the session waits for a lock.

    """
    patience_s = TOLD_AFTER_S if patience_s is None else patience_s
    watch = _Watch(*waiting, target, resync_ids, patience_s)
    thread = threading.Thread(target=watch.look, name="pgrepl-waiting", daemon=True)
    thread.start()
    try:
        yield
    except (psycopg.Error, PgreplError) as exc:
        if watch.is_cancelled.is_set():
            raise CancelledError("the resync was cancelled while it waited for a lock") from exc
        raise
    finally:
        watch.is_over.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class _Watch:
    """Looks, in a thread of its own, for whom a session waits."""

    endpoint: Endpoint
    connection: Connection
    target: Endpoint
    resync_ids: Sequence[int]
    patience_s: float
    is_over: threading.Event = field(default_factory=threading.Event)
    is_cancelled: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Look until it is over, after a while."""
        if self.is_over.wait(self.patience_s):
            return
        told = ""
        # Who cannot be seen is not named; what waits is none the worse.
        with (
            suppress(psycopg.Error, PgreplError),
            connect(self.endpoint, _STAGE) as watcher,
            connect(self.target, _STAGE) as listener,
        ):
            while not self.is_over.is_set():
                blockers = find_blockers(watcher, self.connection.info.backend_pid)
                said = ", ".join(map(str, blockers))
                if said and said != told:
                    told = said
                    logger.warning("%s: the resync waits for %s", self.endpoint, said)
                if blockers:
                    self._hear_cancel(listener)
                self.is_over.wait(_LOOK_S)

    def _hear_cancel(self, listener: Connection) -> None:
        """End what the session waits in, when a resync is cancelled."""
        if is_any_cancelled(listener, self.resync_ids) and not self.is_over.is_set():
            self.is_cancelled.set()
            self.connection.cancel_safe()


def hearing_cancel(
    target: tuple[Endpoint, Connection],
    resync_ids: Sequence[int],
    pause: Callable[[float], None],
) -> Callable[[float], None]:
    """Return a pause that ends when one of some resyncs is cancelled; a session is free for it."""
    endpoint, connection = target
    looked_at = 0.0

    def heard(seconds: float) -> None:
        nonlocal looked_at
        pause(seconds)
        now = time.monotonic()
        if now - looked_at < _LOOK_S:
            return
        looked_at = now
        with translated(endpoint, "cannot look for a request to cancel"):
            is_cancelled = is_any_cancelled(connection, resync_ids)
        if is_cancelled:
            raise CancelledError("the resync was cancelled")

    return heard
