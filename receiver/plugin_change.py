"""Give the slot of a source another output plugin, without a new copy.

PostgreSQL copies a slot with another plugin, at the same position. So the old slot makes way for
its copy between two receivers, and the next one goes on where the last one ended: each transaction
is decoded by one plugin, none by both, none by neither.

pgoutput finds its publications only in what was written after they were made. So they are made
first, then all transactions that were open end, and then the old plugin receives what there is.

What pgoutput does not send is counted by the source's statistics, which sessions tell late. So what
was lost by then is looked for once more when all must have told: wal2json will not look there.

Killed anywhere, the same call goes on: the copy that is under way has a name of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

from pgrepl.catalog.slots import PLUGINS, drop_slot, read_slot
from pgrepl.catalog.writers import read_writers
from pgrepl.config.model import Config, SourceConfig
from pgrepl.errors import AlreadyRunning, SourceError
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.publications.make import make_publications
from pgrepl.publications.tables import read_publications
from pgrepl.receiver.postgres.catalog import mark_end
from pgrepl.receiver.postgres.loss_watch import look_for_losses
from pgrepl.receiver.postgres.source_session import SourceSession
from pgrepl.receiver.run import Receiver
from pgrepl.receiver.spool.spool_opening import open_spool
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.store.sources import set_plugin
from pgrepl.store.tables.unsent import Unsent, record_unsent
from pgrepl.terminal import command

__all__ = ["change_plugin"]

logger = logging.getLogger(__name__)

_STAGE = "receive"
_SUFFIX = "_plugin"
_LOOK_S = 0.2
_TELL_S = 5
#: A session of the source that is idle has told the statistics after 10 seconds what it did.
_COUNTED_S = 11


def change_plugin(config: Config, source: SourceConfig) -> bool:
    """Make the slot one of the plugin that the configuration names; whether it was another.

    Raises
    ------
    SourceError
        when the slot does not exist, or the role may not publish the tables.
    AlreadyRunning
        when a receiver of the source runs.

    """
    with connect(source.endpoint, _STAGE) as connection:
        change = _Change(config, source, connection)
        with translated(source.endpoint, "cannot change the plugin of the slot"):
            return change.run()


class _Change:
    def __init__(self, config: Config, source: SourceConfig, connection: Connection) -> None:
        self._config = config
        self._source = source
        self._connection = connection
        self._slot = source.slot
        self._copy = f"{source.slot}{_SUFFIX}"
        self._unsent: Mapping[tuple[str, str], Unsent] = {}
        #: Since when what commits is not received by the old plugin.
        self._marked_at = 0.0

    def run(self) -> bool:
        plugin = self._plugin_of(self._slot)
        through: Lsn | None = None
        if plugin is not None and plugin != self._source.plugin:
            through = self._receive_rest(plugin)
        with closing(open_spool(self._source, self._config.target.endpoint)) as spool:
            if through is not None:
                with closing(connect(self._config.target.endpoint, _STAGE)) as target:
                    record_unsent(target, spool.source.source_id, self._unsent)
                if plugin == "pgoutput":
                    self._mark_last_losses(spool, through)
            is_changed = self._swap(spool, through)
        with closing(connect(self._config.target.endpoint, _STAGE)) as target:
            set_plugin(target, self._source.name, self._source.plugin)
        return is_changed

    def _receive_rest(self, plugin: str) -> Lsn:
        """Receive by the old plugin what the new one cannot read; return up to where."""
        if plugin not in PLUGINS:
            raise SourceError(
                f'{self._source.endpoint}: slot "{self._slot}" is one of plugin "{plugin}"',
                hint="Set another slot name for this source in pgrepl.toml.",
            )
        if self._source.plugin == "pgoutput":
            # What the old plugin notices meanwhile is counted too: marked twice is marked.
            self._unsent = make_publications(self._connection, self._source)
            reach("plugin.published")
            self._await_open_transactions()
        through = mark_end(SourceSession(self._source))
        self._marked_at = time.monotonic()
        old = replace(self._source, plugin=plugin)
        Receiver(self._config, old).run(once=True)
        reach("plugin.received")
        return through

    def _await_open_transactions(self) -> None:
        """Wait until whatever began before the publications were there is over."""
        ((horizon,),) = self._connection.execute(
            "select pg_snapshot_xmax(pg_current_snapshot())::text::numeric"
        ).fetchall()
        told_at = time.monotonic()
        while not self._connection.execute(
            "select from pg_snapshot_xmin(pg_current_snapshot()) x where x::text::numeric >= %s",
            (horizon,),
        ).fetchall():
            if time.monotonic() - told_at >= _TELL_S:
                told_at = time.monotonic()
                writers = "; ".join(map(str, read_writers(self._connection)[:5]))
                logger.warning("waiting for open transactions: %s", writers)
            time.sleep(_LOOK_S)

    def _mark_last_losses(self, spool: SpoolSession, through: Lsn) -> None:
        """Mark what was lost before the new plugin tells losses itself."""
        found = read_publications(self._connection, self._source)
        if found.unsent(self._source.selection):
            logger.info("waiting for the statistics of tables without a replica identity")
            while time.monotonic() - self._marked_at < _COUNTED_S:
                time.sleep(_LOOK_S)
        target, source_id = self._config.target.endpoint, spool.source.source_id
        look_for_losses(self._source, target, source_id, last_lsn=through)

    def _swap(self, spool: SpoolSession, through: Lsn | None) -> bool:
        """Replace the slot by a copy of it, while nobody else can receive."""
        wanted = self._source.plugin
        plugin = self._plugin_of(self._slot)
        if plugin == wanted:
            self._drop(self._copy)
            return False
        if plugin is not None:
            received = spool.read_origin()
            if through is None or received is None or received < through:
                raise AlreadyRunning(
                    f'source "{self._source.name}" was not received up to {through}',
                    hint="Was another receiver started meanwhile? Run the same command again.",
                )
            self._drop(self._copy)
            self._make(self._slot, self._copy)
            reach("plugin.copied")
            self._drop(self._slot)
            reach("plugin.dropped")
        elif self._plugin_of(self._copy) != wanted:
            again = command("basebackup", self._source.name, "--restart")
            raise SourceError(
                f'{self._source.endpoint}: slot "{self._slot}" does not exist',
                hint=f"Copy it again: {again}.",
            )
        self._make(self._copy, self._slot)
        reach("plugin.renamed")
        self._drop(self._copy)
        return True

    def _plugin_of(self, slot: str) -> str | None:
        found = read_slot(self._connection, slot)
        return found.plugin if found is not None and found.is_here else None

    def _make(self, original: str, slot: str) -> None:
        self._connection.execute(
            "select pg_copy_logical_replication_slot(%s, %s, false, %s)",
            (original, slot, self._source.plugin),
        )

    def _drop(self, slot: str) -> None:
        drop_slot(self._connection, self._source.endpoint, slot)
