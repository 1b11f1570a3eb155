"""The replication connection: frames in, status out, never blocking.

psycopg has no API for replication, but its ``pq`` layer is libpq. The loops that read are in
``pgrepl.receiver.postgres.loops``; here is everything around them. Between two streams the server
takes SQL on the same connection.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from select import POLLIN, poll

import psycopg
from psycopg import errors, pq
from psycopg.errors import Diagnostic
from psycopg.sql import SQL, Composable, Identifier, Literal

from pgrepl.catalog.slots import FAILOVER_VERSION
from pgrepl.config.model import SourceConfig
from pgrepl.decoding.stream import StreamDecoder
from pgrepl.errors import PgreplError, SourceShutDown, SourceUnavailable
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import reason, translate, translated
from pgrepl.receiver.postgres.slot.backlog import Chunk
from pgrepl.receiver.postgres.slot.protocol import encode_status
from pgrepl.receiver.postgres.slot.slot_sql import (
    advance,
    copy_slot,
    drop_slot,
    limit_temporary_files,
    look,
    read,
    try_options,
)
from pgrepl.receiver.postgres.start_check import Identity, read_timeline_history

__all__ = ["ReplicationStream", "open_stream"]

logger = logging.getLogger(__name__)

#: Seconds from 1970 to 2000, where PostgreSQL's clock begins.
_EPOCH_S = 946_684_800

_INT64_SIGN = 1 << 63


class ReplicationStream:
    """A walsender's other end."""

    def __init__(self, connection: Connection, config: SourceConfig) -> None:
        """Take over a replication connection that does nothing yet."""
        self._connection = connection
        self._config = config
        self._encoding: str | None = None
        self.pgconn: pq.abc.PGconn = connection.pgconn
        #: What the server said beside the stream, oldest first: severity and message.
        self.notices: list[tuple[str, str]] = []
        #: The options that the server accepted.
        self.options: Mapping[str, str] = {}
        connection.add_notice_handler(self._take_notice)

    @property
    def server_version(self) -> int:
        """The server's version, as ``server_version_num`` has it."""
        return self._connection.info.server_version

    def identify(self) -> Identity:
        """Ask the server who it is."""
        with translated(self._config.endpoint, "cannot identify it"):
            ((system_identifier, timeline, *_),) = self._connection.execute(
                "IDENTIFY_SYSTEM"
            ).fetchall()
        unsigned = int(system_identifier)
        # SQL shows the unsigned number as a bigint.
        signed = unsigned - (1 << 64) if unsigned >= _INT64_SIGN else unsigned
        return Identity(signed, int(timeline), self._timeline_ends(int(timeline)))

    def _timeline_ends(self, timeline: int) -> Mapping[int, Lsn]:
        """Return where the timelines ended that this one goes back to."""
        if timeline == 1:
            return {}
        try:
            ((_, content),) = self._connection.execute(
                SQL("TIMELINE_HISTORY {}").format(Literal(timeline))
            ).fetchall()
        except psycopg.Error as exc:
            # The file was removed: nobody knows.
            logger.debug("no history of timeline %s: %s", timeline, exc)
            return {}
        text = content if isinstance(content, str) else bytes(content).decode("utf-8", "replace")
        return read_timeline_history(text)

    def enable_failover(self) -> None:
        """Have the slot kept on standbys too, from PostgreSQL 17 on; it must not be in use."""
        if self._connection.info.server_version < FAILOVER_VERSION:
            return
        try:
            self._connection.execute(
                SQL("ALTER_REPLICATION_SLOT {} (FAILOVER true)").format(
                    Identifier(self._config.slot)
                )
            )
        except psycopg.Error as exc:
            logger.warning("the slot is not kept on standbys: %s", reason(exc))

    def hear_debug(self) -> None:
        """Ask to be told of special float values, which the plugin mentions in passing."""
        with translated(self._config.endpoint, "cannot raise client_min_messages"):
            self._connection.execute("set client_min_messages = debug1")

    def ask_encoding(self, encoding: str) -> None:
        """Ask for texts in an encoding: in that of the server it converts nothing."""
        with translated(self._config.endpoint, "cannot set client_encoding"):
            self._connection.execute(SQL("set client_encoding = {}").format(Literal(encoding)))
        self._encoding = encoding

    def reopen(self) -> None:
        """Go on in a new session, after a call that failed.

        Servers do not clean up after an output plugin that is interrupted: pgoutput may take tables
        for described that it described in that call.
        """
        self._connection.close()
        self._connection = _connect(self._config)
        self._connection.add_notice_handler(self._take_notice)
        self.pgconn = self._connection.pgconn
        self.notices.clear()
        if self._encoding is not None:
            self.ask_encoding(self._encoding)

    def start(self, start: Lsn, decoder: StreamDecoder) -> None:
        """Begin to stream, with the best options that the server knows."""
        with translated(self._config.endpoint, "cannot start streaming"):
            self._try_options(decoder, lambda options: self._start(start, options))
        self.notices.clear()
        self.pgconn.nonblocking = 1

    def copy_slot(self, decoder: StreamDecoder, temp_bytes: int) -> Lsn | None:
        """Prepare to pull from a copy of the slot, this session's own; return where it stands.

        None: the source has no slot left, or lets the role make none.
        """
        slot = self._config.slot
        with translated(self._config.endpoint, "cannot read from the slot"):
            self._connection.execute(limit_temporary_files(temp_bytes))
            # Not with the copy: an error would end it.
            self._try_options(
                decoder, lambda options: self._connection.execute(try_options(slot, options))
            )
            try:
                ((position,),) = self._connection.execute(
                    copy_slot(slot, self._slot_copy)
                ).fetchall()
            except (errors.ConfigurationLimitExceeded, errors.InsufficientPrivilege):
                return None
        self.notices.clear()
        self.pgconn.nonblocking = 1
        return Lsn(position)

    def advance_copy(self, upto: Lsn) -> None:
        """Move the copy to where we begin."""
        with translated(self._config.endpoint, "cannot read from the slot"):
            self._connection.execute(advance(self._slot_copy, upto))

    def read_copy(self, chunk: Chunk) -> None:
        """Begin to read a chunk from the copy, and to move it past that."""
        self._send(read(self._slot_copy, chunk, self.options))

    def look_at_copy(self) -> tuple[Lsn, Lsn]:
        """Return where the source's WAL ends, and from where the copy is decoded."""
        with translated(self._config.endpoint, "cannot look at the slot"):
            ((end, restart),) = self._connection.execute(look(self._slot_copy)).fetchall()
        return Lsn(end), Lsn(restart)

    def advance(self, upto: Lsn) -> None:
        """Begin to move the slot itself."""
        self._send(advance(self._config.slot, upto))

    def drop_copy(self) -> None:
        """Remove the copy: it keeps WAL."""
        with translated(self._config.endpoint, "cannot remove the copy of the slot"):
            self._connection.execute(drop_slot(self._slot_copy))

    @property
    def _slot_copy(self) -> str:
        """The copy of the slot that is pulled from, which is this session's and ends with it."""
        return f"pgrepl_pull_{self.pgconn.backend_pid}"

    def _send(self, statement: Composable) -> None:
        """Send a statement; its results are read as libpq's are."""
        with translated(self._config.endpoint, "cannot read from the slot"):
            self.pgconn.send_query(statement.as_bytes(self._connection))
            self.pgconn.flush()

    def cancel(self, patience_s: float) -> None:
        """Ask the server to end the statement in hand; whether it does is seen by its results."""
        with suppress(psycopg.Error, OSError):
            self._connection.cancel_safe(timeout=patience_s)

    def _try_options(
        self, decoder: StreamDecoder, attempt: Callable[[Mapping[str, str]], object]
    ) -> None:
        """Do something with the best options that the server knows."""
        *better, last = decoder.option_sets(self._config.slot)
        for options in better:
            try:
                attempt(options)
            except errors.InvalidParameterValue:
                continue  # the plugin is older than the option
            self.options = options
            return
        attempt(last)
        self.options = last

    def _start(self, start: Lsn, options: Mapping[str, str]) -> None:
        listed: list[Composable] = [
            SQL("{} {}").format(Identifier(name), Literal(value)) for name, value in options.items()
        ]
        command = SQL("START_REPLICATION SLOT {} LOGICAL {} ({})").format(
            Identifier(self._config.slot), SQL(str(start)), SQL(", ").join(listed)
        )
        # Unlike libpq's own call, psycopg's hears signals while it waits.
        self._connection.execute(command)

    def send_status(self, *, received: int, flushed: int, wants_reply: bool) -> None:
        """Tell the server how far we are. It forgets what lies before ``flushed``."""
        at = int((time.time() - _EPOCH_S) * 1_000_000)
        with translated(self._config.endpoint, "the stream broke"):
            self.pgconn.put_copy_data(
                encode_status(received=received, flushed=flushed, at=at, wants_reply=wants_reply)
            )
            # What the socket does not take now goes with the next status.
            self.pgconn.flush()

    def read_input(self) -> None:
        """Take from the socket what is there."""
        with translated(self._config.endpoint, "the stream broke"):
            self.pgconn.consume_input()

    def ended(self) -> PgreplError:
        """Return why the server ended the stream."""
        result = self.pgconn.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            exc = errors.error_from_result(result)
            error = translate(exc, self._config.endpoint, "the stream broke")
            error.__cause__ = exc
            return error
        if result is not None and result.status == pq.ExecStatus.COMMAND_OK:
            # A server says so by itself only when it shuts down, after all that it sent was
            # confirmed: nobody else can write any more then.
            return SourceShutDown(
                f"{self._config.endpoint}: the server shuts down; all that it has is received"
            )
        return SourceUnavailable(f"{self._config.endpoint}: the server ended the stream")

    def end(self, patience_s: float) -> None:
        """End the stream, and stay connected.

        Raises
        ------
        SourceUnavailable
            when the server goes on for longer than this.

        """
        with translated(self._config.endpoint, "the stream broke"):
            self.pgconn.put_copy_end()
            self.pgconn.flush()
            if not self._drain(time.monotonic() + patience_s):
                raise SourceUnavailable(
                    f"{self._config.endpoint}: the server does not stop to send"
                )
            while (result := self.pgconn.get_result()) is not None:
                if result.status == pq.ExecStatus.FATAL_ERROR:
                    raise errors.error_from_result(result)
        self.notices.clear()

    def close(self, patience_s: float) -> None:
        """End the stream in good order if that takes no longer than this."""
        with suppress(psycopg.Error, OSError):
            if self.pgconn.status == pq.ConnStatus.OK:
                self.pgconn.put_copy_end()
                self.pgconn.flush()
                self._drain(time.monotonic() + patience_s)
        self._connection.close()

    def _drain(self, deadline: float) -> bool:
        """Read on until the server has seen that we end: only then did it see our last status.

        Returns false when it took too long.
        """
        poller = poll()
        poller.register(self.pgconn.socket, POLLIN)
        while (left_s := deadline - time.monotonic()) > 0:
            size, _ = self.pgconn.get_copy_data(1)
            if size < 0:
                return True
            if size == 0 and poller.poll(left_s * 1000):
                self.pgconn.consume_input()
        return False

    def _take_notice(self, diagnostic: Diagnostic) -> None:
        severity = diagnostic.severity_nonlocalized or ""
        self.notices.append((severity, diagnostic.message_primary or ""))


def open_stream(config: SourceConfig) -> ReplicationStream:
    """Connect for replication."""
    return ReplicationStream(_connect(config), config)


def _connect(config: SourceConfig) -> Connection:
    connection = connect(config.endpoint, "receive", is_replication=True)
    # Such a connection has the simple protocol alone.
    connection.prepare_threshold = None
    return connection
