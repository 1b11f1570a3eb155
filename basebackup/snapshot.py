"""The slot, and the snapshot under which everything is copied.

A keeper session holds the snapshot for as long as the copy takes. It also locks the tables against
DDL: a table that is truncated or rewritten after the snapshot was taken looks empty under it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg.sql import SQL, Identifier

from pgrepl.background import BackgroundCall
from pgrepl.basebackup.rows.parts import TableSize
from pgrepl.basebackup.rows.task import open_snapshot
from pgrepl.catalog.slots import FAILOVER_VERSION, read_slot
from pgrepl.catalog.tables import SourceTable
from pgrepl.catalog.writers import read_writers
from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SourceChanged, SourceError, SourceUnavailable
from pgrepl.lsn import Lsn, end_of_wal
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.flushed_wal import is_flushed
from pgrepl.postgres.sqlstate import translated

__all__ = [
    "Keeper",
    "SnapshotStart",
    "find_lockers",
    "keep_new_slot",
    "keep_new_snapshot",
    "slot_exists",
]

logger = logging.getLogger(__name__)

_STAGE = "basebackup"
#: How long a slot's creation may take before we look who is in its way.
_PATIENCE_S = 2.0
#: How often, and how long, it is looked whether what a snapshot sees is on disk.
_FLUSH_LOOK_S = 0.02
_FLUSH_S = 60.0


@dataclass(frozen=True, slots=True)
class SnapshotStart:
    """Where the copies made under a snapshot begin."""

    lsn: Lsn
    #: PostgreSQL's text of the snapshot; None when the LSN alone is exact.
    snapshot: str | None


@dataclass(frozen=True, slots=True)
class Keeper:
    """A session that holds a snapshot."""

    endpoint: Endpoint
    connection: Connection
    #: The name under which other sessions import it.
    snapshot: str
    start: SnapshotStart

    def lock(self, tables: Sequence[SourceTable], timeout_s: int) -> None:
        """Keep DDL away from the tables, and make sure that none came before.

        Raises
        ------
        SourceUnavailable
            naming a table that is locked, and who has locked it.
        SourceChanged
            naming one that was truncated, rewritten, renamed or dropped.

        """
        with translated(self.endpoint, "cannot lock the tables"):
            self.connection.execute(
                SQL("set local lock_timeout = {}").format(SQL(str(int(timeout_s * 1000))))
            )
            for table in tables:
                self._lock_one(table, timeout_s)
            changed = self.connection.execute(
                # pg_class is seen under the snapshot; the function sees the table as it is now.
                "select n.nspname || '.' || c.relname from pg_class c"
                " join pg_namespace n on n.oid = c.relnamespace"
                " where c.oid = any (%s::oid[]) and c.relkind = 'r'"
                " and c.relfilenode is distinct from pg_relation_filenode(c.oid) order by 1",
                ([table.oid for table in tables],),
            ).fetchall()
        if changed:
            names = ", ".join(name for (name,) in changed)
            raise SourceChanged(
                f"{self.endpoint}: truncated or rewritten while the copy began: {names}",
                hint="Run the same command again when the migration is over.",
            )

    def _lock_one(self, table: SourceTable, timeout_s: int) -> None:
        statement = SQL("lock table only {} in access share mode").format(table.identifier)
        try:
            self.connection.execute(statement)
        except psycopg.errors.LockNotAvailable as exc:
            raise SourceUnavailable(
                f"{self.endpoint}: table {table} is locked by {_holders(self.endpoint, table)},"
                f" and was for {timeout_s} s",
                hint="Run the same command again when that transaction is over,"
                " or raise --lock-timeout.",
            ) from exc
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as exc:
            raise SourceChanged(
                f"{self.endpoint}: table {table} was dropped or renamed while the copy began",
                hint="Run the same command again.",
            ) from exc

    def check(self) -> None:
        """Make sure that the snapshot and the locks were held up to now.

        Raises
        ------
        SourceError
            when the session ended: since then a table may have been truncated or rewritten.

        """
        with translated(self.endpoint, "lost the session that held the snapshot"):
            self.connection.execute("select")

    def sizes(self, tables: Iterable[SourceTable]) -> dict[int, TableSize]:
        """Return how big each table is by its OID, without its indexes and its partitions."""
        with translated(self.endpoint, "cannot read the sizes of the tables"):
            rows = self.connection.execute(
                "select t.oid::bigint, coalesce(pg_table_size(t.oid::regclass), 0),"
                " coalesce(pg_relation_size(t.oid::regclass), 0)"
                " / current_setting('block_size')::bigint from unnest(%s::oid[]) as t (oid)",
                ([table.oid for table in tables],),
            )
            return {oid: TableSize(size, blocks) for oid, size, blocks in rows.fetchall()}


def _holders(endpoint: Endpoint, table: SourceTable) -> str:
    with connect(endpoint, _STAGE) as connection:
        return find_lockers(connection, table.oid)


def find_lockers(
    connection: Connection, oid: int | None, modes: Sequence[str] = ("AccessExclusiveLock",)
) -> str:
    """Return in words who has locked a table of the database in some modes."""
    rows = connection.execute(
        "select distinct pid from pg_locks where locktype = 'relation' and relation = %s"
        " and database = (select oid from pg_database where datname = current_database())"
        " and mode = any (%s) and granted and pid <> pg_backend_pid()",
        (oid, list(modes)),
    ).fetchall()
    return "pid " + ", ".join(str(pid) for (pid,) in rows) if rows else "another transaction"


def keep_new_slot(endpoint: Endpoint, slot: str, plugin: str) -> Keeper:
    """Make a slot and keep the snapshot of its consistent point."""
    # The snapshot dies with the next command on the slot's own connection, so another keeps it.
    with connect(endpoint, _STAGE, is_replication=True) as maker:
        consistent_point, exported = _SlotCreation(endpoint, maker, slot, plugin).result()
        keeper = connect(endpoint, _STAGE)
        with translated(endpoint, "cannot keep the snapshot"):
            open_snapshot(keeper, exported)
            ((snapshot,),) = keeper.execute("select pg_export_snapshot()").fetchall()
    return Keeper(endpoint, keeper, snapshot, SnapshotStart(consistent_point, None))


def keep_new_snapshot(endpoint: Endpoint) -> Keeper:
    """Take an ordinary snapshot; the slot that is there goes on from before it."""
    keeper = connect(endpoint, _STAGE)
    with translated(endpoint, "cannot take a snapshot"):
        keeper.execute("begin isolation level repeatable read read only")
        ((seen, snapshot),) = keeper.execute(
            "select pg_current_snapshot()::text, pg_export_snapshot()"
        ).fetchall()
        # Read after the snapshot: nothing that it sees committed beyond this position.
        ((lsn,),) = keeper.execute("select pg_current_wal_insert_lsn()").fetchall()
        _await_flushed(endpoint, keeper, end_of_wal(lsn))
    return Keeper(endpoint, keeper, snapshot, SnapshotStart(end_of_wal(lsn), seen))


def _await_flushed(endpoint: Endpoint, keeper: Connection, lsn: Lsn) -> None:
    """Wait until no crash can undo what a snapshot sees any more.

    Raises
    ------
    SourceUnavailable
        when the source does not write its WAL.

    """
    begin = time.monotonic()
    while not is_flushed(keeper, lsn, begin):
        if time.monotonic() - begin > _FLUSH_S:
            raise SourceUnavailable(
                f"{endpoint}: its WAL up to {lsn} was not on disk after {_FLUSH_S:g} s",
                hint="Look after its disk, and run the same command again.",
            )
        time.sleep(_FLUSH_LOOK_S)


class _SlotCreation:
    """CREATE_REPLICATION_SLOT in a thread, while we tell who keeps it waiting."""

    def __init__(self, endpoint: Endpoint, maker: Connection, slot: str, plugin: str) -> None:
        self._endpoint = endpoint
        self._maker = maker
        options = "SNAPSHOT 'export'"
        if maker.info.server_version >= FAILOVER_VERSION:
            # Standbys that synchronize slots keep it too.
            options += ", FAILOVER true"
        self._statement = SQL("CREATE_REPLICATION_SLOT {} LOGICAL {} ({})").format(
            Identifier(slot), Identifier(plugin), SQL(options)
        )

    def _create(self) -> tuple[str, str, str, str] | None:
        return self._maker.execute(self._statement).fetchone()

    def result(self) -> tuple[Lsn, str]:
        """Return the consistent point and the exported snapshot."""
        creating = BackgroundCall(self._create)
        try:
            told = ""
            while not creating.wait(_PATIENCE_S):
                told = self._tell_who_blocks(told)
        except BaseException:
            self._maker.cancel_safe(timeout=5)
            raise
        with translated(self._endpoint, "cannot create the slot"):
            row = creating.result()
        if row is None:
            raise SourceError(f"{self._endpoint}: CREATE_REPLICATION_SLOT returned nothing")
        return Lsn.parse(row[1]), row[2]

    def _tell_who_blocks(self, told: str) -> str:
        with (
            connect(self._endpoint, _STAGE) as connection,
            translated(self._endpoint, "cannot see who blocks the slot"),
        ):
            writers = read_writers(connection)
        pids = ",".join(str(writer.pid or writer.gid) for writer in writers)
        if writers and pids != told:
            logger.warning(
                "the slot waits for open transactions: %s", "; ".join(map(str, writers[:5]))
            )
        return pids


def slot_exists(connection: Connection, endpoint: Endpoint, slot: str, plugin: str) -> bool:
    """Whether the slot is there and still of use.

    Raises
    ------
    SourceError
        when it is not owned by pgrepl, or lost.

    """
    with translated(endpoint, "cannot look for the slot"):
        found = read_slot(connection, slot)
    if found is None:
        return False
    if found.plugin != plugin or not found.is_here:
        raise SourceError(
            f'{endpoint}: slot "{slot}" is not owned by pgrepl',
            hint="Set another slot name for this source in pgrepl.toml.",
        )
    if found.is_lost:
        raise SourceError(
            f'{endpoint}: slot "{slot}" is lost: {found.loss}',
            hint=f"Raise {found.limit} there, and start over with --restart.",
        )
    return True
