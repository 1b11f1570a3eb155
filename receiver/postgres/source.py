"""A PostgreSQL server as a source: a replication connection, and short sessions beside it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from pgrepl.config.model import SourceConfig
from pgrepl.decoding.formats import stream_decoder
from pgrepl.lsn import Lsn, as_lsn
from pgrepl.position import Position
from pgrepl.postgres.encodings import python_codec
from pgrepl.postgres.sqlstate import translated
from pgrepl.receiver.postgres.assembler import Assembler
from pgrepl.receiver.postgres.catalog import SourceFacts, mark_end, read_catalogue, read_facts
from pgrepl.receiver.postgres.replication_stream import ReplicationStream, open_stream
from pgrepl.receiver.postgres.start_check import check_confirmed, check_start
from pgrepl.receiver.postgres.stream_loop import StreamLoop
from pgrepl.receiver.routing import Router
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool_session import SpoolSession
from pgrepl.receiver.spool_writer import SpoolWriter

__all__ = ["PostgresSource"]

logger = logging.getLogger(__name__)


class PostgresSource:
    """Reads a logical replication slot through an output plugin."""

    def __init__(self, config: SourceConfig, surroundings: Surroundings) -> None:
        """Prepare; nothing is connected yet."""
        self._config = config
        self._surroundings = surroundings
        self._decoder = stream_decoder(config.plugin)

    def mark_end(self) -> Lsn:
        """Return a position that no transaction lies after which committed before this call."""
        return mark_end(self._config)

    @contextmanager
    def open(self, spool: SpoolSession, stop: Position | None) -> Iterator[_Stream]:
        """Connect, check that nothing is missing, and let the server begin to send."""
        connection = open_stream(self._config)
        try:
            facts = read_facts(self._config)
            assembler = self._begin(
                spool, connection, facts, None if stop is None else as_lsn(stop)
            )
            yield _Stream(self._config, connection, assembler, facts, self._surroundings)
        finally:
            connection.close(0)

    def _begin(
        self,
        spool: SpoolSession,
        stream: ReplicationStream,
        facts: SourceFacts,
        stop_lsn: Lsn | None,
    ) -> Assembler:
        config = self._config
        progress = spool.read_progress()
        start = check_start(
            row=spool.source,
            origin=spool.read_origin(),
            progress=progress,
            facts=facts,
            identity=stream.identify(),
            plugin=self._decoder.name,
        )
        if facts.wal_status == "unreserved":
            logger.warning(
                "the source is about to remove what was not received yet;"
                " raise max_slot_wal_keep_size",
                extra={"slot": config.slot},
            )
        codec = python_codec(facts.encoding)
        router = Router(
            decoder=self._decoder,
            db=spool.source.dbname,
            selection=config.selection,
            codec=codec,
            assigned=spool.read_buckets(),
            read_catalogue=partial(read_catalogue, config),
        )
        spool.set_format(self._decoder.name, facts.encoding)
        if config.special_floats == "exact" and not self._decoder.has_special_values({}):
            stream.hear_debug()
        if self._decoder.converts_encoding:
            stream.ask_encoding(facts.encoding)
        stream.start(start, self._decoder)
        # Somebody may have read from the slot since the first look. Now nobody can but us.
        check_confirmed(spool.source, start, read_facts(config))
        logger.info("streaming", extra={"slot": config.slot, "start": start})
        return Assembler(
            decoder=self._decoder,
            router=router,
            start=start,
            last_seq=progress.last_seq if progress is not None else 0,
            limit_bytes=self._surroundings.settings.segment_bytes,
            codec=codec,
            has_special_values=self._decoder.has_special_values(stream.options),
            stop_lsn=stop_lsn,
        )


class _Stream:
    """The server sends."""

    def __init__(
        self,
        config: SourceConfig,
        connection: ReplicationStream,
        assembler: Assembler,
        facts: SourceFacts,
        surroundings: Surroundings,
    ) -> None:
        self.start = Lsn(assembler.received)
        self._config = config
        self._connection = connection
        self._assembler = assembler
        self._facts = facts
        self._surroundings = surroundings

    def run(self, writer: SpoolWriter) -> None:
        """Read until told to stop, or until the end that was asked for."""
        loop = StreamLoop(
            stream=self._connection,
            assembler=self._assembler,
            writer=writer,
            surroundings=self._surroundings,
            timeout_s=float(self._facts.wal_sender_timeout_s),
        )
        with translated(self._config.endpoint, "the stream broke"):
            loop.run()
