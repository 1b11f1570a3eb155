"""Notice what a publication does not send: of that pgoutput says nothing.

An UPDATE or DELETE of a table without a replica identity leaves no trace in the stream, only in the
source's statistics: when they count more of them than when the copy began, the table has to be
copied again. So has a table that is not published at all. What a transaction did that rolled back
is counted as well: a table may be marked for nothing, but none that differs is forgotten.

A table that is published by now, but was not for a while, is noted on the source by the event
triggers that keep the publications; replay copies it again by itself. So it does with tables whose
statistics were reset, which happens once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing

from psycopg.errors import UndefinedObject

from pgrepl.config.dsn import Endpoint
from pgrepl.config.model import SourceConfig
from pgrepl.config.naming import shown_name
from pgrepl.errors import PgreplError, SourceError
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import connect
from pgrepl.postgres.foreign_names import load_any_name
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.late import LateTable, read_late_tables
from pgrepl.publications.tables import Publications, read_publications
from pgrepl.receiver.postgres.loops.slot_reading import SlotReading
from pgrepl.receiver.postgres.losses import Losses, judge_losses
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.receiver.spool.spool_writer import SpoolWriter
from pgrepl.receiver.wakeup import Wakeup
from pgrepl.store.resync.resync_queue import mark_late, mark_unproven
from pgrepl.store.spool.spool_format import DDL_TABLE
from pgrepl.store.tables.table_marks import LOST_IDENTITY, add_lost_table, mark_counted_loss
from pgrepl.store.tables.unsent import (
    KnownUnsent,
    note_counted_since,
    read_counted_since,
    read_unsent,
    record_unsent,
)
from pgrepl.terminal import command

__all__ = ["WatchedReading", "look_for_losses"]

logger = logging.getLogger(__name__)

_STAGE = "receive"
_LOOK_S = 10.0
_NOT_PUBLISHED = "its changes are not published"
_NOT_COUNTED = "the source's statistics were reset: what it lost was not counted"
_COUNTS_NOTHING = "nobody counts what it loses: on the source track_counts is off"
_LATE = "it was not published as a whole for a while"


class WatchedReading:
    """Reads a slot, and looks for losses now and then meanwhile, and once after it."""

    def __init__(
        self, reading: SlotReading, source: SourceConfig, spool: SpoolSession, wakeup: Wakeup
    ) -> None:
        """Take over a reading that can begin."""
        self.start = reading.start
        self._reading = reading
        self._source = source
        self._target = spool.endpoint
        self._source_id = spool.source.source_id
        self._wakeup = wakeup
        self._is_over = threading.Event()

    def run(self, writer: SpoolWriter) -> None:
        """Read until told to stop, or until the end that was asked for."""
        # Whoever is told to stop does not wait for a server that does not answer.
        threading.Thread(target=self._look_again, name="loss-watch", daemon=True).start()
        try:
            self._reading.run(writer)
        except SourceError as exc:
            if isinstance(exc.__cause__, UndefinedObject):
                # pgoutput looks a publication up as it was when a change was written.
                exc.hint = (
                    "What was written without it can never be read. Make it again:"
                    f" {command('doctor', self._source.name, '--sql')}. Then copy again:"
                    f" {command('basebackup', self._source.name, '--restart')}."
                )
            raise
        finally:
            self._is_over.set()
        if not self._wakeup.is_stopping:
            _look(self._source, self._target, self._source_id)

    def _look_again(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            _look(self._source, self._target, self._source_id)


def _look(source: SourceConfig, target: Endpoint, source_id: int) -> None:
    """Look for losses; a server that does not answer is asked again later."""
    try:
        look_for_losses(source, target, source_id)
    except PgreplError as exc:
        logger.warning("cannot look for changes that were not sent: %s", exc.message)


def look_for_losses(
    source: SourceConfig, target: Endpoint, source_id: int, *, last_lsn: Lsn | None = None
) -> None:
    """Mark tables that lost changes, as far as the source's statistics know of them by now.

    ``last_lsn``: nobody looks again, for pgoutput sends nothing from there on; so tables that
    replay has not made yet are marked as well.

    Raises
    ------
    PgreplError
        when a server does not answer.

    """
    with (
        closing(connect(target, _STAGE)) as connection,
        translated(target, "cannot note what was lost"),
    ):
        # Before the source: what is noted of a copy is never newer than what is counted.
        known = read_unsent(connection, source_id)
        last_since = read_counted_since(connection, source_id)
        found, late = _read(source)
        counts = found.unsent(source.selection)
        losses = judge_losses(known, found.tables, counts, last_since)
        for name, reason in _find(source, found, known, losses).items():
            mark_counted_loss(connection, source_id, name, known[name].oid, reason)
        if last_lsn is not None:
            for name, reason in _find_unknown(source, found, known, late).items():
                add_lost_table(connection, source_id, name, reason, last_lsn)
        unproven = mark_unproven(connection, source_id, losses.unproven, _NOT_COUNTED)
        record_unsent(connection, source_id, losses.first)
        note_counted_since(connection, source_id, found.state.counted_since)
        due = mark_late(connection, source_id, late, _LATE)
    _say("changes were not published for a while", due)
    _say("the source's statistics were reset, by a crash perhaps", unproven)
    if found.state.is_guarded and not found.state.may_read_notes:
        logger.warning("this role may not read which tables were published late; see pgrepl doctor")


def _read(source: SourceConfig) -> tuple[Publications, Sequence[LateTable]]:
    with (
        closing(connect(source.endpoint, _STAGE)) as connection,
        translated(source.endpoint, "cannot read the publications"),
    ):
        load_any_name(connection)
        found = read_publications(connection, source)
        late = read_late_tables(connection) if found.state.may_read_notes else []
    return found, late


def _say(what: str, due: Sequence[TableName]) -> None:
    if due:
        names = ", ".join(sorted(shown_name(*name) for name in due))
        logger.warning("%s; replay copies again: %s", what, names)


def _find(
    source: SourceConfig, found: Publications, known: Collection[TableName], losses: Losses
) -> Mapping[TableName, str]:
    # A table that replay has not made yet is not marked: a row of it would be in its way.
    lost = {
        table.key: _NOT_PUBLISHED
        for table in found.unpublished(source.selection)
        if table.key in known
    }
    for table in found.uncounted(source.selection):
        if table.key in known:
            lost[table.key] = _COUNTS_NOTHING
    return lost | dict.fromkeys(losses.lost, LOST_IDENTITY)


def _find_unknown(
    source: SourceConfig,
    found: Publications,
    known: Mapping[TableName, KnownUnsent],
    late: Sequence[LateTable],
) -> Mapping[TableName, str]:
    """Return tables that replay has not made yet and some of whose changes were not sent."""
    oids = {each.oid for each in known.values()}
    late_oids = {table.oid for table in late}
    lost: dict[TableName, str] = {}
    for table in found.tables:
        if table.oid in oids or table.key in known or not table.is_wanted(source.selection):
            continue
        if not table.has_identity and table.change_count > 0 and table.key != DDL_TABLE:
            lost[table.key] = LOST_IDENTITY
        elif table.oid in late_oids:
            lost[table.key] = _LATE
    return lost
