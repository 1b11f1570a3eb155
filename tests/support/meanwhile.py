"""Do things in threads while a block runs, and raise what went wrong in them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def meanwhile(*runs: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run each in a thread of its own; at the end of the block the event is set."""
    stop = threading.Event()
    failed: list[BaseException] = []

    def guarded(run: Callable[[threading.Event], object]) -> None:
        try:
            run(stop)
        except BaseException as exc:  # noqa: BLE001  raised below
            failed.append(exc)

    threads = [threading.Thread(target=guarded, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def again(act: Callable[[], object], pause_s: float) -> Callable[[threading.Event], None]:
    """Return what does something again and again, until the event is set."""

    def run(stop: threading.Event) -> None:
        while not stop.is_set():
            act()
            stop.wait(pause_s)

    return run


def at_pause(number: int, act: Callable[[], object]) -> Callable[[float], None]:
    """Return what sleeps, and acts first when it is called for that time."""
    calls = 0

    def pause(seconds: float) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            act()
        time.sleep(seconds)

    return pause
