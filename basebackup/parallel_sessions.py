"""Work on the target side by side: some sessions, each of which takes the next item when free."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TypeVar

from pgrepl.config.dsn import Endpoint
from pgrepl.postgres.connect import Connection, connect

__all__ = ["run_in_sessions"]

_STAGE = "basebackup"

#: How long a cancelled statement has to end before it is cancelled again.
_CANCEL_AGAIN_S = 1.0

Item = TypeVar("Item")


def run_in_sessions(
    endpoint: Endpoint, items: Iterable[Item], work: Callable[[Connection, Item], None], jobs: int
) -> None:
    """Do the work for every item, in their order, on as many sessions as there are jobs.

    After an error, or Ctrl-C, what runs is cancelled and nothing more begins.
    """
    left = deque(items)
    if not left:
        return
    running: set[Connection] = set()

    def run_session() -> None:
        with connect(endpoint, _STAGE) as connection:
            running.add(connection)
            try:
                for item in _drain(left):
                    work(connection, item)
            finally:
                running.discard(connection)

    session_count = min(jobs, len(left))
    with ThreadPoolExecutor(session_count) as pool:
        sessions = [pool.submit(run_session) for _ in range(session_count)]
        try:
            for session in wait(sessions, return_when=FIRST_EXCEPTION).done:
                session.result()
        except BaseException:
            left.clear()
            _cancel(sessions, running)
            raise


def _drain(left: deque[Item]) -> Iterator[Item]:
    """Yield item after item until none is left for anybody."""
    with suppress(IndexError):
        while True:
            yield left.popleft()


def _cancel(sessions: Sequence[Future[None]], running: set[Connection]) -> None:
    """End what runs: nobody waits for an index of hours after Ctrl-C or an error elsewhere."""
    patience_s = 0.0
    # Not only once: a request that comes before its statement has no effect.
    while wait(sessions, patience_s).not_done:
        for connection in list(running):
            connection.cancel_safe(timeout=5)
        patience_s = _CANCEL_AGAIN_S
