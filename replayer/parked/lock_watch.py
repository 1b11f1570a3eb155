"""Two sessions on the target: one that may wait for locks, and one that sees whose they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress

import psycopg

from pgrepl.config.dsn import Endpoint
from pgrepl.postgres.connect import Connection, connect
from pgrepl.replayer.session import open_session
from pgrepl.replayer.settings import ReplaySettings
from pgrepl.replayer.shard.apply import TableLocked
from pgrepl.store.locked import Blocker, find_blockers

__all__ = ["Blocked", "LockWatch", "naming_blockers"]

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


@contextmanager
def naming_blockers(target: Endpoint, writer: Connection, *, is_wanted: bool) -> Iterator[None]:
    """Note in the error of a lock that is not free who holds it.

    Looking takes a session and a thread: it is wanted where a lock was in the way before.
    """
    if not is_wanted:
        yield
        return
    seen: list[Blocker] = []
    is_over = threading.Event()
    with closing(connect(target, "replay")) as watcher:

        def look() -> None:
            # Who is not seen is not named; the attempt itself is none the worse.
            with suppress(psycopg.Error):
                while not is_over.wait(_WATCH_S):
                    seen[:] = find_blockers(watcher, writer.info.backend_pid) or seen

        thread = threading.Thread(target=look, name="pgrepl-blockers", daemon=True)
        thread.start()
        try:
            yield
        except psycopg.errors.LockNotAvailable as exc:
            exc.add_note(f"locked by {', '.join(map(str, seen)) or 'a session that was not seen'}")
            raise
        finally:
            is_over.set()
            thread.join()
