"""The positions that a comparison waits for."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import TargetError
from pgrepl.lsn import Lsn, end_of_wal
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.sqlstate import translated
from pgrepl.store.progress.receive_progress import read_received
from pgrepl.store.progress.shard_progress import has_passed
from pgrepl.store.sources import SourceRow
from pgrepl.verify.standstill import TableName, Waiting, read_waiting

__all__ = ["Follower", "Passage"]

_POLL_S = 0.1


def _note_position(connection: Connection, endpoint: Endpoint) -> Lsn:
    """Return a position after everything that a reader of the source has seen by now."""
    with translated(endpoint, "cannot read its position"):
        ((lsn,),) = connection.execute("select pg_current_wal_insert_lsn()").fetchall()
    return end_of_wal(lsn)


@dataclass(frozen=True, slots=True)
class Passage:
    """Whether the target shows what the source showed."""

    #: That it does not, of some tables at least.
    error: TargetError | None = None
    #: The tables whose changes it lacks; None: of none it is known.
    waiting: Waiting | None = field(default_factory=Waiting)

    def has(self, table: TableName) -> bool:
        """Whether the target shows all changes of a table."""
        return self.waiting is not None and not self.waiting.concerns(table)


@dataclass(slots=True)
class Follower:
    """Waits for the target, and not a second time where nothing moves."""

    connection: Connection
    endpoint: Endpoint
    row: SourceRow
    patience_s: float
    _is_standing: bool = False

    def catch_up(
        self,
        source: Connection,
        source_endpoint: Endpoint,
        tables: Collection[TableName] | None = None,
    ) -> Passage:
        """Wait until the target shows what the source shows now, all of it or of some tables."""
        lsn = _note_position(source, source_endpoint)
        if self._wait(lsn, 0.0 if self._is_standing else self.patience_s):
            return Passage()
        # Not before: nobody else can use the slot while it is looked into.
        waiting = self._read_waiting(source, source_endpoint, lsn)
        self._is_standing = waiting is not None
        if waiting is not None and not any(map(waiting.concerns, tables or waiting)):
            return Passage(None, waiting)
        return Passage(self._lag(lsn, source_endpoint), waiting)

    def _lag(self, lsn: Lsn, source_endpoint: Endpoint) -> TargetError:
        return TargetError(
            f"{self.endpoint}: did not pass {lsn} of {source_endpoint} in {self.patience_s:g} s,"
            " so that not everything could be judged",
            hint="Run pgrepl receive and pgrepl replay, or give them longer with --wait.",
        )

    def _read_waiting(
        self, source: Connection, source_endpoint: Endpoint, lsn: Lsn
    ) -> Waiting | None:
        """Return the tables with changes that nobody has received; None: it cannot be said."""
        with translated(source_endpoint, f'cannot look into slot "{self.row.slot}"'):
            found = read_waiting(source, self.row.slot, lsn)
        if found is None:
            return None
        begin, waiting = found
        with translated(self.endpoint, "cannot follow the replication"):
            is_first = read_received(self.connection, self.row.source_id) is None
        return waiting if is_first or self._has_passed(begin) else None

    def _has_passed(self, lsn: Lsn) -> bool:
        with translated(self.endpoint, "cannot follow the replication"):
            return has_passed(self.connection, self.row.source_id, lsn)

    def _wait(self, lsn: Lsn, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while True:
            if self._has_passed(lsn):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
