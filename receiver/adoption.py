"""Go on after pg_upgrade, without a new copy.

pg_upgrade of the target loses replication origins: each is made again where the target recorded
that its source stands, so never ahead of the spool. pg_upgrade of a source makes another server of
it, which is taken on when nothing can be missing in between (``postgres.upgrade_check``); tables
that were written there too early are marked to be copied again.

The slot is made first, then the look at what was written: so all that comes later is in the slot.
Killed anywhere, the same call starts over with another slot, until the target has the new position.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier

from pgrepl.catalog.slots import drop_slot
from pgrepl.config.model import Config, SourceConfig
from pgrepl.errors import SourceError
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.sqlstate import translated
from pgrepl.receiver.postgres.catalog import SourceFacts, read_facts
from pgrepl.receiver.postgres.slot.replication_stream import open_stream
from pgrepl.receiver.postgres.source_session import SourceSession
from pgrepl.receiver.postgres.start_check import Identity, check_start
from pgrepl.receiver.postgres.upgrade_check import (
    WRITTEN,
    Evidence,
    UpgradedTable,
    check_same_database,
    find_doubt,
    find_written,
    is_migrated,
)
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.spool.batch import Batch
from pgrepl.receiver.spool.spool_opening import open_spool
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.store.migrations import migrate
from pgrepl.store.progress.receive_progress import is_shut_down
from pgrepl.store.sources import find_source, make_origin, read_version, record_version
from pgrepl.store.tables.source_tables import read_source_tables
from pgrepl.store.tables.target_tables import read_target_tables
from pgrepl.terminal import command

__all__ = ["Adoption", "adopt"]

logger = logging.getLogger(__name__)

_STAGE = "receive"
_BIRTH_BITS = 32


@dataclass(frozen=True, slots=True)
class Adoption:
    """What was done for a source."""

    source: str
    #: Where its replication origin was made again; None: it was there.
    origin: Lsn | None = None
    #: Where receiving goes on with another server; None: it is the one that is known.
    position: Lsn | None = None
    #: Tables that have to be copied again.
    marked: Sequence[TableName] = field(default_factory=tuple)


def adopt(config: Config, source: SourceConfig, *, may_mark_all: bool = False) -> Adoption:
    """Go on with what pg_upgrade made of the target, of a source, or of both.

    ``may_mark_all``: where nothing shows that all was received, mark every table.

    Raises
    ------
    SourceError
        when the source is not the upgraded one, or something may be missing.
    AlreadyRunning
        when a receiver of the source runs.

    """
    target = config.target.endpoint
    with closing(connect(target, _STAGE)) as connection:
        migrate(connection, target)
        with translated(target, f'cannot make the origin of source "{source.name}"'):
            row = find_source(connection, source.name)
            is_copied = row is not None and row.state == "streaming"
            origin = make_origin(connection, row) if row is not None and is_copied else None
    with closing(open_spool(source, target)) as spool:
        stream = open_stream(source)
        try:
            identity = stream.identify()
        finally:
            stream.close(0)
        if identity.system_identifier == spool.source.system_identifier:
            _check(source, spool, identity)
            return Adoption(source.name, origin=origin)
        with (
            closing(connect(source.endpoint, _STAGE)) as there,
            closing(connect(target, _STAGE)) as here,
        ):
            taking = _TakingOn(source, identity, spool, there, here)
            with translated(source.endpoint, "cannot take the upgraded server on"):
                position, marked = taking.run(may_mark_all=may_mark_all)
    return Adoption(source.name, origin, position, tuple(marked))


def _check(source: SourceConfig, spool: SpoolSession, identity: Identity) -> None:
    """Say at once what the next receiver would refuse, such as a target restored to the past."""
    check_start(
        row=spool.source,
        origin=spool.read_origin(),
        progress=spool.read_progress(),
        facts=read_facts(SourceSession(source)),
        identity=identity,
        plugin=source.plugin,
    )


class _TakingOn:
    """A source that is another server now; ``there`` is a session of it, ``here`` the target's."""

    def __init__(
        self,
        source: SourceConfig,
        identity: Identity,
        spool: SpoolSession,
        there: Connection,
        here: Connection,
    ) -> None:
        self._source = source
        self._identity = identity
        self._spool = spool
        self._there = there
        self._here = here

    def run(self, *, may_mark_all: bool) -> tuple[Lsn, Sequence[TableName]]:
        """Take it on, and return where receiving goes on and which tables are marked."""
        spool, row = self._spool, self._spool.source
        progress = spool.read_progress()
        received = spool.read_origin()
        if received is None or (progress is not None and progress.received_lsn != received):
            raise SourceError(
                f'replication origin "{row.slot}" is not where the target recorded',
                hint=f"Copy it again: {command('basebackup', row.name, '--restart')}.",
            )
        names = [table.key for table in read_source_tables(self._here, row.source_id)]
        facts = read_facts(SourceSession(self._source))
        known = spool.read_source_oids()
        check_same_database(row, facts, received, known, self._look(names))
        losses: Mapping[TableName, str] = {}
        version = read_version(self._here, row.source_id)
        if is_migrated(row, version, facts.slot, self._source.plugin):
            position = self._migrated(facts)
        else:
            # Should we end here, the slot must not be taken for one that pg_upgrade brought along.
            with translated(spool.endpoint, "cannot record the version"):
                record_version(self._here, row.source_id, None)
            position = self._make_slot()
            reach("adopt.slot_made")
            losses = self._find_losses(names, may_mark_all=may_mark_all)
        batch = Batch(
            position=position,
            last_seq=progress.last_seq if progress is not None else 0,
            losses=losses,
        )
        spool.take_on(batch, self._identity.system_identifier, self._identity.timeline)
        reach("adopt.taken_on")
        return position, sorted(losses)

    def _migrated(self, facts: SourceFacts) -> Lsn:
        """Return where the slot begins that pg_upgrade made."""
        if facts.slot is None or facts.slot.confirmed_flush_lsn is None:
            raise SourceError(f'slot "{self._source.slot}" has no position')
        return facts.slot.confirmed_flush_lsn

    def _make_slot(self) -> Lsn:
        """Make the slot, whatever there is of its name: nobody has received from that."""
        drop_slot(self._there, self._source.endpoint, self._source.slot)
        logger.info(
            "making the slot, as soon as all transactions are over that run now",
            extra={"slot": self._source.slot},
        )
        ((lsn,),) = self._there.execute(
            "select lsn from pg_create_logical_replication_slot(%s, %s)",
            (self._source.slot, self._source.plugin),
        ).fetchall()
        return Lsn(lsn)

    def _find_losses(
        self, names: Sequence[TableName], *, may_mark_all: bool
    ) -> Mapping[TableName, str]:
        """Return the tables that changed before the slot was made, and why that is thought."""
        row = self._spool.source
        with self._there.cursor(row_factory=class_row(Evidence)) as cursor:
            (evidence,) = cursor.execute(
                load_query("pgrepl.receiver.postgres", "upgrade_evidence"),
                {"born": (self._identity.system_identifier % 2**64) >> _BIRTH_BITS},
            ).fetchall()
        doubt = find_doubt(evidence, is_shut_down=is_shut_down(self._here, row.source_id))
        if doubt is None:
            found = self._look(names)
            empty = [(table.schema, table.name) for table in found if table.is_empty]
            return dict.fromkeys(find_written(found, self._filled(empty)), WRITTEN)
        if may_mark_all:
            return dict.fromkeys(names, f"the source was upgraded, and {doubt.reason}")
        drop_slot(self._there, self._source.endpoint, self._source.slot)
        everything = command("adopt", row.name, "--resync")
        raise SourceError(
            f'source "{row.name}" was upgraded, and something may be missing: {doubt.reason}',
            hint=f"{doubt.remedy} Have all its tables copied again, one after the other:"
            f" {everything}".lstrip(),
        )

    def _look(self, names: Sequence[TableName]) -> Sequence[UpgradedTable]:
        with self._there.cursor(row_factory=class_row(UpgradedTable)) as cursor:
            return cursor.execute(
                load_query("pgrepl.receiver.postgres", "upgraded_tables"),
                {"schemas": [schema for schema, _ in names], "names": [name for _, name in names]},
            ).fetchall()

    def _filled(self, names: Sequence[TableName]) -> Sequence[TableName]:
        """Return the tables whose copies have rows."""
        filled = []
        for copy in read_target_tables(self._here, self._spool.source.source_id, names):
            if copy.oid is None or copy.target_schema is None:
                continue
            table = Identifier(copy.target_schema, copy.copy_name)
            ((is_filled,),) = self._here.execute(
                SQL("select exists (select from {})").format(table)
            ).fetchall()
            if is_filled:
                filled.append((copy.schema, copy.table))
        return filled
