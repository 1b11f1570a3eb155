"""Read the configuration again while a service runs: when the file changes, and at SIGHUP."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pgrepl.errors import PgreplError

if TYPE_CHECKING:
    from pgrepl.cli.invocation import Invocation
    from pgrepl.config.model import Config

__all__ = ["watch_config"]

logger = logging.getLogger("pgrepl.cli")

#: How often the file is looked at.
_LOOK_S = 1.0


@contextmanager
def watch_config(
    invocation: Invocation, config: Config, take: Callable[[Config], None]
) -> Iterator[None]:
    """Hand over each configuration that differs from the last; one with mistakes is only logged.

    What was changed since ``config`` was read is handed over at once.
    """
    asked = threading.Event()
    is_over = threading.Event()
    before = signal.signal(signal.SIGHUP, lambda *_: asked.set())
    watch = threading.Thread(
        target=_watch, args=(invocation, config, take, asked, is_over), daemon=True
    )
    watch.start()
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
        is_over.set()
        asked.set()
        watch.join()


def _watch(
    invocation: Invocation,
    config: Config,
    take: Callable[[Config], None],
    asked: threading.Event,
    is_over: threading.Event,
) -> None:
    # Of which version the configuration was read, nobody knows.
    known, patience_s = None, 0.0
    while not is_over.is_set():
        is_asked = asked.wait(patience_s)
        is_begin, patience_s = patience_s == 0, _LOOK_S
        asked.clear()
        version = _version(config.path)
        if is_over.is_set() or (version == known and not is_asked):
            continue
        known = version
        try:
            found = invocation.load_config()
        except PgreplError as exc:
            logger.error("configuration not read again, going on without: %s", exc.message)  # noqa: TRY400  a mistake in a file
            continue
        if found == config:
            if is_asked or not is_begin:
                logger.info("configuration read again: nothing changed")
            continue
        config = found
        take(found)


def _version(path: Path) -> tuple[int, int, int] | None:
    """Return what tells one version of a file from another; None while it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
