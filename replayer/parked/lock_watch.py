"""Two sessions on the target: one that may wait for locks, and one that sees whose they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, closing

import psycopg

from pgrepl.config.dsn import Endpoint
from pgrepl.postgres.connect import connect
from pgrepl.replayer.session import open_session
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.apply import TableLocked
from pgrepl.store.locked import Blocker, find_blockers

__all__ = ["Blocked", "LockWatch"]

#: So often it is looked who is in the way.
_WATCH_S = 0.05


class Blocked(Exception):
    """A lock is not free."""

    def __init__(self, blockers: Sequence[Blocker], *, is_inside: bool) -> None:
        """Take who holds it, as far as that was seen; ``is_inside``: met while rows changed."""
        super().__init__(blockers)
        self.blockers = blockers
        self.is_inside = is_inside


class LockWatch(AbstractContextManager["LockWatch"]):
    """Runs what may wait for a lock in a thread, and looks meanwhile who holds that."""

    def __init__(self, target: Endpoint, settings: ReplaySettings) -> None:
        """Open both sessions."""
        with ExitStack() as stack:
            self.writer = stack.enter_context(closing(open_session(target, settings)))
            self.watcher = stack.enter_context(closing(connect(target, "replay")))
            self._pool = stack.enter_context(ThreadPoolExecutor(1, "pgrepl-lock"))
            self._stack = stack.pop_all()

    def __exit__(self, *_: object) -> None:
        """End both sessions."""
        self._stack.close()

    def run(self, attempt: Callable[[], bool]) -> bool:
        """Return what an attempt in the writer's session says.

        Raises
        ------
        Blocked
            when a lock was in its way for too long.

        """
        blockers: Sequence[Blocker] = ()
        running = self._pool.submit(attempt)
        while wait([running], _WATCH_S).not_done:
            blockers = find_blockers(self.watcher, self.writer.info.backend_pid) or blockers
        try:
            return running.result()
        except TableLocked as locked:
            raise Blocked(blockers, is_inside=True) from locked
        except psycopg.errors.LockNotAvailable as exc:
            raise Blocked(blockers, is_inside=False) from exc
