"""Receive a source for as long as it takes: sessions one after another, with a pause between.

Every session begins from what the target says, so that whatever ended the last one, the next goes
on exactly there.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial

import psycopg

from pgrepl.config.model import Config, SourceConfig
from pgrepl.errors import AlreadyRunning, PgreplError, Retry, SourceShutDown, TargetError
from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection, connect
from pgrepl.receiver.kinds import make_source
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.settings import ReceiverSettings
from pgrepl.receiver.source import Source, Surroundings
from pgrepl.receiver.spool.spool_opening import LiveReceiver, open_spool
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.receiver.spool.spool_writer import SpoolWriter
from pgrepl.receiver.systemd_notify import Notifier
from pgrepl.receiver.wakeup import Wakeup
from pgrepl.retry import Backoff
from pgrepl.store.monitoring import failures
from pgrepl.store.progress.receive_progress import forget_shutdown, record_shutdown
from pgrepl.store.sources import find_source
from pgrepl.store.streams import OffsetsMoved

__all__ = ["Receiver", "Result"]

logger = logging.getLogger(__name__)

#: After this number of times in a row another receiver that moves the offsets will not go away.
_FENCES = 5


@dataclass(frozen=True, slots=True)
class Result:
    """What was received, when it ended on purpose."""

    #: Everything before it is in the spool.
    flushed: Position
    transaction_count: int
    change_count: int
    segment_count: int
    #: Tables that wait for a resync.
    resync_tables: tuple[TableName, ...]


class Receiver:
    """Receives one source; ``stop`` ends it from a signal handler or another thread."""

    def __init__(
        self,
        config: Config,
        source: SourceConfig,
        *,
        settings: ReceiverSettings | None = None,
        notifier: Notifier | None = None,
    ) -> None:
        """Prepare; nothing is opened yet."""
        self._config = config
        self._source = source
        self._settings = settings or ReceiverSettings()
        self._notifier = notifier or Notifier({})
        self._wakeup = Wakeup()
        self._reader = self._make_reader()
        self._stopping = threading.Event()
        #: What to go on with, once the session at hand has ended.
        self._next: tuple[Config, SourceConfig] | None = None
        self._flushed: Position = Lsn(0)
        self._transaction_count = 0
        self._change_count = 0
        self._segment_count = 0
        #: Whether the session at hand, and any session at all, came so far as to stream.
        self._has_streamed = False
        self._is_owner = False
        self._resync_tables: tuple[TableName, ...] = ()
        self._may_have_failed = True

    def stop(self) -> None:
        """Ask to end within a second, at the boundary of a transaction."""
        self._stopping.set()
        self._wakeup.stop()

    def reload(self, config: Config, source: SourceConfig) -> None:
        """Go on with another configuration, from the next boundary of a transaction on."""
        self._next = (config, source)
        self._wakeup.stop()

    def run(self, *, once: bool = False, until: Position | None = None) -> Result:
        """Receive until stopped; up to the source's end now with ``once``, or up to a position.

        Raises
        ------
        PgreplError
            when something stands in the way that does not pass by itself.

        """
        # Messages are in no cycles: the collector would look at them for nothing, again and again.
        # What a broken session leaves is collected before the next one.
        gc.disable()
        try:
            stop = until
            if once:
                marked = self._persist(self._reader.mark_end, is_patient=False)
                stop = marked if until is None else min(marked or until, until)
            while True:
                self._persist(partial(self._receive, stop), is_patient=stop is None)
                if not self._take_next():
                    break
        finally:
            gc.enable()
            self._reader.close()
            self._notifier.stopping()
            self._wakeup.close()
        return Result(
            self._flushed,
            self._transaction_count,
            self._change_count,
            self._segment_count,
            self._resync_tables,
        )

    @property
    def _is_interrupted(self) -> bool:
        """Whether the session at hand is to be the last one of this configuration."""
        return self._stopping.is_set() or self._next is not None

    def _take_next(self) -> bool:
        """Take up the configuration that came meanwhile; False when there is none, or no time."""
        following = self._next
        if following is None:
            return False
        self._wakeup.is_stopping = False
        # From now on a stop is heard by the sessions to come; one that came before, here.
        if self._stopping.is_set():
            return False
        self._next = None
        self._config, self._source = following
        self._reader.close()
        self._reader = self._make_reader()
        logger.info("going on with the changed configuration")
        return True

    def _make_reader(self) -> Source:
        """Return what reads the source, as the configuration at hand says."""
        on_error = self._config.replay.on_error
        surroundings = Surroundings(self._settings, self._wakeup, self._notifier, on_error)
        return make_source(self._source, surroundings)

    def _persist(
        self, attempt: Callable[[], Position | None], *, is_patient: bool
    ) -> Position | None:
        """Try until it works, as long as what stands in the way passes by itself."""
        settings = self._settings
        backoff = Backoff(settings.backoff_s, settings.backoff_limit_s)
        began_at = time.monotonic()
        fence_count = 0
        while not self._is_interrupted:
            self._has_streamed = False
            attempt_at = time.monotonic()
            try:
                return attempt()
            except PgreplError as exc:
                self._record(exc)
                waited_s = time.monotonic() - began_at
                is_running = isinstance(exc, AlreadyRunning)
                # A receiver that lost its connection is the rightful one; a new one is not.
                self._is_owner |= self._has_streamed
                is_waiting_over = isinstance(exc, LiveReceiver) or waited_s > settings.predecessor_s
                is_over = is_running and not self._is_owner and is_waiting_over
                if exc.retry is not Retry.TIMED or is_over:
                    raise
                if not isinstance(exc, OffsetsMoved):
                    fence_count = 0
                elif not is_patient or fence_count == _FENCES:
                    raise
                else:
                    lasted_s = time.monotonic() - attempt_at
                    fence_count = 1 if lasted_s > settings.once_patience_s else fence_count + 1
                if not is_patient and waited_s > settings.once_patience_s:
                    raise
                if self._has_streamed:
                    backoff.succeed()
                    began_at = time.monotonic()
                pause_s = backoff.fail()
                logger.warning("%s; trying again", exc.message, extra={"in_s": round(pause_s, 1)})
                self._pause(pause_s)
        return None

    def _record(self, error: PgreplError) -> None:
        """Keep for pgrepl status what went wrong, where the target itself is not what is wrong."""
        if isinstance(error, AlreadyRunning | TargetError):
            return
        self._note(lambda connection, id_: failures.record(connection, "receive", id_, error))
        if isinstance(error, SourceShutDown):
            self._note(record_shutdown)
        self._may_have_failed = True

    def _forget_failure(self, spool: SpoolSession) -> None:
        """Take that back, and what an earlier receiver left: it streams."""
        if self._may_have_failed:
            try:
                if spool.beside is None:
                    self._note(_forget)
                else:
                    _forget(spool.beside, spool.source.source_id)
            except psycopg.Error:
                # It may have been ended while the source was opened.
                self._note(_forget)
            self._may_have_failed = False
        spool.close_beside()

    def _note(self, write: Callable[[Connection, int], None]) -> None:
        """Take a note in another session: the one that holds the origin writes the spool only.

        That it cannot be taken is no error of its own.
        """
        target = self._config.target.endpoint
        with (
            suppress(PgreplError, psycopg.Error),
            closing(connect(target, "receive")) as connection,
        ):
            row = find_source(connection, self._source.name)
            if row is not None:
                write(connection, row.source_id)

    def _pause(self, duration_s: float) -> None:
        until = time.monotonic() + duration_s
        while not self._is_interrupted and (left_s := until - time.monotonic()) > 0:
            self._notifier.alive()
            self._stopping.wait(min(left_s, 1))

    def _receive(self, stop: Position | None) -> Position | None:
        """Run one session."""
        gc.collect()
        with ExitStack() as stack:
            spool = open_spool(self._source, self._config.target.endpoint)
            stack.callback(spool.close)
            stream = stack.enter_context(self._reader.open(spool, stop))
            self._has_streamed = True
            writer = SpoolWriter(
                spool,
                start=stream.start,
                settings=self._settings,
                max_spool=self._source.max_spool,
                may_pause=stop is None,
                wake=self._wakeup.wake,
            )
            stack.callback(self._end, writer)
            self._notifier.ready()
            self._forget_failure(spool)
            stream.run(writer)
            self._end(writer)
            if not self._stopping.is_set():
                self._resync_tables = tuple(spool.read_resyncs())
        return None

    def _end(self, writer: SpoolWriter) -> None:
        """End the writer, once, and add up what it did."""
        if writer.close(self._settings.stop_s):
            self._flushed = writer.flushed
            self._transaction_count += writer.transaction_count
            self._change_count += writer.change_count
            self._segment_count += writer.segment_count


def _forget(connection: Connection, source_id: int) -> None:
    failures.clear(connection, "receive", source_id)
    forget_shutdown(connection, source_id)
