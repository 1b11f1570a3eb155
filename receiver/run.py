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

from pgrepl import failures
from pgrepl.config import Config, SourceConfig
from pgrepl.errors import AlreadyRunning, PgreplError, Retry, TargetError
from pgrepl.lsn import Lsn
from pgrepl.postgres import Connection, connect
from pgrepl.receiver.assembler import Assembler
from pgrepl.receiver.notify import Notifier
from pgrepl.receiver.routes import Router, TableName
from pgrepl.receiver.session import Session
from pgrepl.receiver.settings import ReceiverSettings
from pgrepl.receiver.source import (
    SourceFacts,
    mark_end,
    python_codec,
    read_catalogue,
    read_facts,
)
from pgrepl.receiver.start import judge_confirmed, judge_start
from pgrepl.receiver.stream import ReplicationStream, open_stream
from pgrepl.receiver.target import LiveReceiver, SpoolSession, open_spool
from pgrepl.receiver.wakeup import Wakeup
from pgrepl.receiver.wal2json import TEXT_NUMBERS, Wal2Json
from pgrepl.receiver.writer import SpoolWriter
from pgrepl.source_state import find_source
from pgrepl.sqlstate import translated

__all__ = ["Receiver", "Result"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Result:
    """What was received, when it ended on purpose."""

    flushed: Lsn
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
        self._plugin = Wal2Json()
        self._wakeup = Wakeup()
        self._stopping = threading.Event()
        self._flushed = Lsn(0)
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

    def run(self, *, once: bool = False, until: Lsn | None = None) -> Result:
        """Receive until stopped; up to the source's end now with ``once``, or up to a position.

        Raises
        ------
        PgreplError
            when something stands in the way that does not pass by itself.

        """
        # Messages are in no cycles: the collector would look at them for nothing, again and again.
        # What a broken session leaves behind is collected before the next one.
        gc.disable()
        try:
            stop_lsn = until
            if once:
                marked = self._persist(partial(mark_end, self._source), is_patient=False)
                stop_lsn = marked if until is None else min(marked or until, until)
            self._persist(partial(self._receive, stop_lsn), is_patient=stop_lsn is None)
        finally:
            gc.enable()
            self._notifier.stopping()
            self._wakeup.close()
        return Result(
            self._flushed,
            self._transaction_count,
            self._change_count,
            self._segment_count,
            self._resync_tables,
        )

    def _persist(self, attempt: Callable[[], Lsn | None], *, is_patient: bool) -> Lsn | None:
        """Try until it works, as long as what stands in the way passes by itself."""
        settings = self._settings
        backoff_s = settings.backoff_s
        began_at = time.monotonic()
        while not self._stopping.is_set():
            self._has_streamed = False
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
                if not is_patient and not is_running and waited_s > settings.once_patience_s:
                    raise
                if self._has_streamed:
                    backoff_s = settings.backoff_s
                    began_at = time.monotonic()
                logger.warning("%s; trying again", exc.message, extra={"in_s": round(backoff_s, 1)})
                self._pause(backoff_s)
                backoff_s = min(backoff_s * 2, settings.backoff_limit_s)
        return None

    def _record(self, error: PgreplError) -> None:
        """Keep for pgrepl status what went wrong, where the target itself is not what is wrong."""
        if isinstance(error, AlreadyRunning | TargetError):
            return
        self._note(lambda connection, id_: failures.record(connection, "receive", id_, error))
        self._may_have_failed = True

    def _forget_failure(self) -> None:
        """Take that back, and what an earlier receiver left: it streams."""
        if self._may_have_failed:
            self._note(lambda connection, id_: failures.clear(connection, "receive", id_))
            self._may_have_failed = False

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
        while not self._stopping.is_set() and (left_s := until - time.monotonic()) > 0:
            self._notifier.alive()
            self._stopping.wait(min(left_s, 1))

    def _receive(self, stop_lsn: Lsn | None) -> Lsn | None:
        """Run one session."""
        gc.collect()
        with ExitStack() as stack:
            spool = open_spool(self._source, self._config.target.endpoint)
            stack.callback(spool.close)
            stream = open_stream(self._source)
            stack.callback(stream.close, 0)
            facts = read_facts(self._source)
            assembler = self._begin(spool, stream, facts, stop_lsn)
            writer = SpoolWriter(
                spool,
                start=Lsn(assembler.received),
                settings=self._settings,
                max_spool=self._source.max_spool,
                may_pause=stop_lsn is None,
                wake=self._wakeup.wake,
            )
            stack.callback(self._end, writer)
            session = Session(
                stream=stream,
                assembler=assembler,
                writer=writer,
                settings=self._settings,
                timeout_s=float(facts.wal_sender_timeout_s),
                wakeup=self._wakeup,
                notifier=self._notifier,
            )
            self._notifier.ready()
            self._forget_failure()
            with translated(self._source.endpoint, "the stream broke"):
                session.run()
            self._end(writer)
            if not self._stopping.is_set():
                self._resync_tables = tuple(spool.read_resyncs())
        return None

    def _begin(
        self,
        spool: SpoolSession,
        stream: ReplicationStream,
        facts: SourceFacts,
        stop_lsn: Lsn | None,
    ) -> Assembler:
        """Check that nothing is missing, and let the source begin to send."""
        source = self._source
        progress = spool.read_progress()
        start = judge_start(
            row=spool.source,
            origin=spool.read_origin(),
            progress=progress,
            facts=facts,
            identity=stream.identify(),
            plugin=self._plugin.name,
        )
        if facts.wal_status == "unreserved":
            logger.warning(
                "the source is about to remove what was not received yet;"
                " raise max_slot_wal_keep_size",
                extra={"slot": source.slot},
            )
        codec = python_codec(source, facts.encoding)
        router = Router(
            db=spool.source.dbname,
            selection=source.selection,
            codec=codec,
            assigned=spool.read_buckets(),
            read_catalogue=partial(read_catalogue, source),
        )
        spool.use_encoding(facts.encoding)
        if source.special_floats == "exact":
            stream.hear_debug()
        stream.start(start, self._plugin)
        # Somebody may have read from the slot since the first look. Now nobody can but us.
        judge_confirmed(spool.source, start, read_facts(source))
        self._has_streamed = True
        logger.info("streaming", extra={"slot": source.slot, "start": start})
        return Assembler(
            plugin=self._plugin,
            router=router,
            start=start,
            last_seq=progress.last_seq if progress is not None else 0,
            limit_bytes=self._settings.segment_bytes,
            codec=codec,
            has_text_numbers=TEXT_NUMBERS in stream.options,
            stop_lsn=stop_lsn,
        )

    def _end(self, writer: SpoolWriter) -> None:
        """End the writer, once, and add up what it did."""
        if writer.close(self._settings.stop_s):
            self._flushed = Lsn(max(self._flushed, writer.flushed))
            self._transaction_count += writer.transaction_count
            self._change_count += writer.change_count
            self._segment_count += writer.segment_count
