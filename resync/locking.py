"""Lock tables of the target: short waits, again and again, and a word about who is in the way."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from psycopg import errors
from psycopg.sql import SQL, Identifier

from pgrepl.config.dsn import Endpoint
from pgrepl.config.naming import shown_name
from pgrepl.errors import TargetUnavailable
from pgrepl.postgres.connect import Connection
from pgrepl.resync.report import ResyncOptions

__all__ = ["lock_patiently"]

logger = logging.getLogger(__name__)

#: Others that want the table wait behind us for no longer than this.
_LOCK_TIMEOUT_MS = 1000
#: Unless only a vacuum is in the way: that of autovacuum is ended by the server for whoever has
#: waited for deadlock_timeout, and for nobody who gives up before.
_AFTER_DEADLOCK_TIMEOUT_MS = 500
_PAUSE_S = 0.5
#: Who waits longer than this says for whom.
_TOLD_AFTER_S = 2.0
#: The condition for locks on tables and their partitions.
_THEIR_LOCKS = SQL(
    "locktype = 'relation' and granted"
    " and relation in (select to_regclass(t.name) from unnest(%(tables)s::text[]) as t (name)"
    "  union select p.relid from unnest(%(tables)s::text[]) as t (name),"
    "  pg_partition_tree(to_regclass(t.name)) p)"
    " and database = (select oid from pg_database where datname = current_database())"
)


def lock_patiently(
    connection: Connection,
    endpoint: Endpoint,
    tables: Sequence[tuple[str, str]],
    work: Callable[[], None],
    options: ResyncOptions,
    *,
    with_readers: bool = False,
) -> None:
    """Do some work in a transaction that keeps writers, but no readers, away from tables.

    ``with_readers``: it keeps readers away as well, from their partitions too.

    Raises
    ------
    TargetUnavailable
        naming who has one of them locked, when that lasts for too long.

    """
    begin = time.monotonic()
    told = ""
    names = ", ".join(shown_name(*table) for table in tables)
    lock = SQL(
        "lock table {} in access exclusive mode"
        if with_readers
        else "lock table {} in share row exclusive mode"
    ).format(
        SQL(", ").join(
            SQL("{}" if with_readers else "only {}").format(Identifier(*table)) for table in tables
        )
    )
    while True:
        try:
            with connection.transaction():
                connection.execute("set local session_replication_role = replica")
                connection.execute("set local row_security = off")
                connection.execute(f"set local lock_timeout = {_timeout_ms(connection, tables)}")
                connection.execute(lock)
                work()
        except errors.LockNotAvailable as exc:
            waited_s = time.monotonic() - begin
            blockers = _find_blockers(connection, tables, with_readers=with_readers)
            if waited_s > options.wait_s:
                raise TargetUnavailable(
                    f"{endpoint}: table {names} is locked by {blockers}, and was for"
                    f" {options.wait_s} s",
                    hint="Nothing changed yet. Run the same command again when that transaction is"
                    " over: what is copied stays copied.",
                ) from exc
            if waited_s > _TOLD_AFTER_S and blockers != told:
                told = blockers
                logger.warning("table %s is locked by %s", names, blockers)
            options.pause(_PAUSE_S)
        else:
            return


def _timeout_ms(connection: Connection, tables: Sequence[tuple[str, str]]) -> int:
    """Return how long the lock is waited for."""
    ((is_vacuumed, deadlock_ms),) = connection.execute(
        SQL(
            "select coalesce(bool_or(mode = 'ShareUpdateExclusiveLock'), false)"
            " and not bool_or(mode in ('RowExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock',"
            "  'ExclusiveLock', 'AccessExclusiveLock')),"
            " (select setting::integer from pg_settings where name = 'deadlock_timeout')"
            " from pg_locks where {}"
        ).format(_THEIR_LOCKS),
        {"tables": _quoted(tables)},
    ).fetchall()
    if not is_vacuumed:
        return _LOCK_TIMEOUT_MS
    return max(_LOCK_TIMEOUT_MS, int(deadlock_ms) + _AFTER_DEADLOCK_TIMEOUT_MS)


def _quoted(tables: Sequence[tuple[str, str]]) -> list[str]:
    return [Identifier(*table).as_string() for table in tables]


def _find_blockers(
    connection: Connection, tables: Sequence[tuple[str, str]], *, with_readers: bool
) -> str:
    """Return who has a lock that keeps us from ours, in words."""
    rows = connection.execute(
        SQL(
            "select l.pid, a.usename::text, extract(epoch from now() - a.xact_start)::integer"
            " from (select distinct pid from pg_locks"
            " where {} and pid <> pg_backend_pid()"
            " and (%(with_readers)s or mode not in ('AccessShareLock', 'RowShareLock'))) l"
            " left join pg_stat_activity a using (pid) order by 1"
        ).format(_THEIR_LOCKS),
        {"tables": _quoted(tables), "with_readers": with_readers},
    ).fetchall()
    said = [
        f"pid {pid}" + (f" of {role}" if role else "") + (f" for {s} s" if s is not None else "")
        for pid, role, s in rows
    ]
    return ", ".join(said) or "another transaction"
