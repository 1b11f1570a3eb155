"""Receivers in this process, or in a fork of it, that pull small chunks."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pgrepl import failpoint
from pgrepl.config.file import load_config
from pgrepl.receiver import Receiver, ReceiverSettings, Result
from tests.support.running.streaming import Streaming

#: Whatever there is is a backlog, and few transactions are a chunk.
EAGER = {
    "pull_from_bytes": 1,
    "pull_while_bytes": 1,
    "pull_first_rows": 60,
    "pull_max_rows": 120,
    "pull_check_s": 0.0,
    "pull_advance_s": 0.0,
}


def make_receiver(streaming: Streaming, **settings: Any) -> Receiver:
    config = load_config(streaming.config)
    given = ReceiverSettings(**{**EAGER, **settings})
    source = replace(config.source(streaming.name), backlog="pull")
    return Receiver(config, source, settings=given)


def pull_once(streaming: Streaming, **settings: Any) -> Result:
    """Receive what there is, in chunks."""
    return make_receiver(streaming, **settings).run(once=True)


@contextmanager
def pulling(streaming: Streaming, **settings: Any) -> Iterator[Receiver]:
    """Receive while the block runs."""
    receiver = make_receiver(streaming, **settings)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(receiver.run)
        try:
            yield receiver
        finally:
            receiver.stop()
        running.result()


def die_pulling(
    streaming: Streaming, place: str, visit: int, *, once: bool = True, **settings: Any
) -> None:
    """Receive in a process that is killed at a place, the n-th time it comes there."""
    pid = os.fork()
    if pid == 0:
        try:
            failpoint._armed, failpoint._survived = place, visit - 1
            make_receiver(streaming, **settings).run(once=once)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), f"{place} was not reached {visit} times"
    assert os.WTERMSIG(status) == signal.SIGKILL
