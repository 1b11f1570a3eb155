"""A PostgreSQL server as a source: a replication connection, and an ordinary session beside it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

from pgrepl.config.model import SourceConfig
from pgrepl.decoding.formats import stream_decoder
from pgrepl.lsn import Lsn, as_lsn
from pgrepl.position import Position
from pgrepl.postgres.encodings import python_codec
from pgrepl.receiver.postgres.assembler import Assembler
from pgrepl.receiver.postgres.catalog import (
    SourceFacts,
    check_maskable,
    mark_end,
    read_catalogue,
    read_facts,
    read_views,
)
from pgrepl.receiver.postgres.ddl_watch import DdlWatch
from pgrepl.receiver.postgres.loops.slot_reading import SlotReading
from pgrepl.receiver.postgres.loss_watch import WatchedReading
from pgrepl.receiver.postgres.row_filter import RowFilter
from pgrepl.receiver.postgres.rule_guard import RuleGuard
from pgrepl.receiver.postgres.slot.backlog import Backlog
from pgrepl.receiver.postgres.slot.replication_stream import ReplicationStream, open_stream
from pgrepl.receiver.postgres.slot.slot_access import SlotAccess
from pgrepl.receiver.postgres.source_session import SourceSession
from pgrepl.receiver.postgres.start_check import check_start
from pgrepl.receiver.routing import Router, TableName
from pgrepl.receiver.source import Surroundings
from pgrepl.receiver.spool.spool_session import Progress, SpoolSession

__all__ = ["PostgresSource"]

logger = logging.getLogger(__name__)


class PostgresSource:
    """Reads a logical replication slot through an output plugin."""

    def __init__(self, config: SourceConfig, surroundings: Surroundings) -> None:
        """Prepare; nothing is connected yet."""
        self._config = config
        self._surroundings = surroundings
        self._decoder = stream_decoder(config.plugin)
        #: What was too much for one call stays so in the next session.
        self._backlog = Backlog(surroundings.settings)
        self._session = SourceSession(config)

    def mark_end(self) -> Lsn:
        """Return a position that no transaction lies after which committed before this call."""
        self._session.keep()
        return mark_end(self._session)

    def close(self) -> None:
        """End the session that is kept for the next questions."""
        self._session.close()

    @property
    def _hears_debug(self) -> bool:
        """Whether special float values arrive as notices, which tell of the next change."""
        is_exact = self._config.special_floats == "exact"
        return is_exact and not self._decoder.has_special_values({})

    @contextmanager
    def open(
        self, spool: SpoolSession, stop: Position | None
    ) -> Iterator[SlotReading | WatchedReading]:
        """Connect, check that nothing is missing, and let the server begin to send."""
        stop_lsn = None if stop is None else as_lsn(stop)
        with ExitStack() as stack:
            stack.callback(self._session.close)
            self._session.keep()
            stream = open_stream(self._config)
            stack.callback(stream.close, 0)
            facts = read_facts(self._session)
            progress = spool.read_progress()
            start = self._check(spool, progress, stream, facts)
            codec = python_codec(facts.encoding)
            spool.set_format(self._decoder.name, facts.encoding)
            if self._hears_debug:
                stream.hear_debug()
            if self._decoder.converts_encoding:
                stream.ask_encoding(facts.encoding)
            access = SlotAccess(
                session=self._session,
                row=spool.source,
                stream=stream,
                decoder=self._decoder,
                backlog=self._backlog,
                temp_bytes=self._surroundings.settings.pull_temp_bytes,
                # What the plugin says of special values belongs to the next change; SQL loses that.
                may_pull=self._config.backlog == "pull" and not self._hears_debug,
                stop=stop_lsn,
            )
            pulled = access.begin(start, facts)
            reading = SlotReading(
                access,
                self._assembler(
                    spool,
                    progress,
                    codec=codec,
                    encoding=facts.encoding,
                    has_special_values=self._decoder.has_special_values(stream.options),
                    start=start,
                    stop=stop_lsn,
                    row_filter=self._row_filter(codec, stack),
                ),
                self._surroundings,
                timeout_s=float(facts.wal_sender_timeout_s),
                pulled=pulled,
            )
            if stop is None:
                # It may be hours until there is another question.
                self._session.close()
            if self._decoder.tells_losses:
                yield reading
            else:
                wakeup = self._surroundings.wakeup
                yield WatchedReading(reading, self._config, spool, wakeup)

    def _row_filter(self, codec: str, stack: ExitStack) -> RowFilter | None:
        """Return what filters rows, for as long as the stream is open."""
        if not self._config.rules.has_filters:
            return None
        row_filter = RowFilter(self._config, self._decoder, codec)
        stack.callback(row_filter.close)
        return row_filter

    def _check(
        self,
        spool: SpoolSession,
        progress: Progress | None,
        stream: ReplicationStream,
        facts: SourceFacts,
    ) -> Lsn:
        """Return where to begin."""
        identity = stream.identify()
        start = check_start(
            row=spool.source,
            origin=spool.read_origin(),
            progress=progress,
            facts=facts,
            identity=identity,
            plugin=self._decoder.name,
        )
        spool.record_version(stream.server_version)
        if identity.timeline != spool.source.timeline:
            spool.follow_timeline(identity.timeline, identity.ends[spool.source.timeline])
            logger.warning(
                "the source failed over to timeline %s; all that was received of it is there",
                identity.timeline,
                extra={"source": self._config.name},
            )
        slot = facts.slot
        if slot is not None and slot.is_failover is False:
            stream.enable_failover()
        if slot is not None and slot.wal_status == "unreserved":
            logger.warning(
                "the source is about to remove what was not received yet;"
                " raise max_slot_wal_keep_size",
                extra={"slot": self._config.slot},
            )
        return start

    def _assembler(
        self,
        spool: SpoolSession,
        progress: Progress | None,
        *,
        codec: str,
        encoding: str,
        has_special_values: bool,
        start: Lsn,
        stop: Lsn | None,
        row_filter: RowFilter | None,
    ) -> Assembler:
        config = self._config
        oids = spool.read_source_oids()
        router = Router(
            decoder=self._decoder,
            db=spool.source.dbname,
            selection=config.selection,
            rules=config.rules,
            codec=codec,
            assigned=spool.read_buckets(),
            replicated=oids.keys(),
            read_catalogue=partial(read_catalogue, self._session),
            row_filter=row_filter,
            read_replicated=spool.read_source_oids if config.rules.has_effects else None,
        )
        return Assembler(
            decoder=self._decoder,
            router=router,
            start=start,
            last_seq=progress.last_seq if progress is not None else 0,
            limit_bytes=self._surroundings.settings.segment_bytes,
            codec=codec,
            has_special_values=has_special_values,
            stop_lsn=stop,
            ddl_watch=DdlWatch(config, encoding, router, self._guard(oids), oids),
        )

    def _guard(self, oids: Mapping[TableName, int]) -> RuleGuard | None:
        """Return what looks at captured DDL, where rules do anything."""
        config = self._config
        if not config.rules.has_effects:
            return None
        check_maskable(self._session)
        return RuleGuard(config, oids, partial(read_views, self._session))
