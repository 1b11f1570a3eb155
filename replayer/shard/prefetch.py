"""Work on one item while the next is made."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TypeVar

__all__ = ["one_ahead"]

_Item = TypeVar("_Item")


class _End(Exception):
    """There are no more items."""


@contextmanager
def one_ahead(items: Generator[_Item, None, None]) -> Iterator[Iterator[_Item]]:
    """Make the next item in a thread while its taker is busy with the last one.

    At most one is made and waits, so that no more than two are ever there. What goes wrong in the
    making is raised where the item would have been taken. After the block the thread has ended.
    """
    made: SimpleQueue[_Item | Exception] = SimpleQueue()
    wanted = threading.Semaphore(1)
    is_over = threading.Event()

    def make() -> None:
        try:
            for item in items:
                made.put(item)
                wanted.acquire()
                if is_over.is_set():
                    return
            made.put(_End())
        except Exception as exc:  # noqa: BLE001  raised again where it is waited for
            made.put(exc)
        finally:
            items.close()

    def take() -> Iterator[_Item]:
        while True:
            item = made.get()
            wanted.release()
            if isinstance(item, _End):
                return
            if isinstance(item, Exception):
                raise item
            yield item

    thread = threading.Thread(target=make, name="ahead", daemon=True)
    wanted.acquire()
    thread.start()
    try:
        yield take()
    finally:
        is_over.set()
        wanted.release()
        thread.join()
