"""Work of a source that may take long: in a thread of its own, so that the others go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import PgreplError
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.listener import wake

__all__ = ["SourceThreads"]

_STAGE = "replay"
#: More sources at a time wait for each other. Threads are kept: each has its own way to the JVM.
_MOST = 32

#: What is done for a source, with a session of its own to plan and record in.
Work = Callable[[Connection], None]


class SourceThreads(AbstractContextManager["SourceThreads"]):
    """At most one thread for each source; whoever leaves the context waits for all of them."""

    def __init__(self, target: Endpoint) -> None:
        """Start none."""
        self._target = target
        self._calls: dict[int, Future[None]] = {}
        self._pool: ThreadPoolExecutor | None = None
        #: Sessions that nobody uses. A new one costs more than a small batch.
        self._spare: list[Connection] = []

    def __exit__(self, *_: object) -> None:
        """Wait for those that are at work; what they met is theirs to meet again."""
        while self._calls:
            with suppress(PgreplError):
                self.collect(None)
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        while self._spare:
            self._spare.pop().close()

    @property
    def busy(self) -> AbstractSet[int]:
        """The sources that are worked for."""
        return self._calls.keys()

    def start(self, source_id: int, work: Work) -> None:
        """Begin to work for a source that is not busy."""
        if source_id in self._calls:
            raise AssertionError("a source is worked for once at a time")
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MOST, "pgrepl-source")
        self._calls[source_id] = self._pool.submit(self._run, work)

    def collect(self, wait_s: float | None) -> Sequence[int]:
        """Return the sources whose work has ended, waiting for one of them no longer than so.

        Raises
        ------
        PgreplError
            what one of them could not deal with.

        """
        done = wait(self._calls.values(), wait_s, FIRST_COMPLETED).done if self._calls else ()
        ended = [source_id for source_id, call in self._calls.items() if call in done]
        for call in [self._calls.pop(source_id) for source_id in ended]:
            call.result()
        return ended

    def _run(self, work: Work) -> None:
        control = self._take_session()
        try:
            with translated(self._target, "cannot replay"):
                work(control)
                # Whoever waits for news hears that the source can go on.
                wake(control)
        except BaseException:
            control.close()
            raise
        self._spare.append(control)

    def _take_session(self) -> Connection:
        try:
            return self._spare.pop()
        except IndexError:
            # Another thread may take the last one at any time.
            return connect(self._target, _STAGE)
