"""Lock a table of the target: short waits, again and again, and a word about who is in the way."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

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
_PAUSE_S = 0.5
#: Who waits longer than this says for whom.
_TOLD_AFTER_S = 2.0


def lock_patiently(
    connection: Connection,
    endpoint: Endpoint,
    table: tuple[str, str],
    work: Callable[[], None],
    options: ResyncOptions,
    *,
    with_readers: bool = False,
) -> None:
    """Do some work in a transaction that keeps writers, but no readers, away from a table.

    ``with_readers``: it keeps readers away as well, from its partitions too.

    Raises
    ------
    TargetUnavailable
        naming who has the table locked, when that lasts for too long.

    """
    begin = time.monotonic()
    told = ""
    lock = SQL(
        "lock table {} in access exclusive mode"
        if with_readers
        else "lock table only {} in share row exclusive mode"
    )
    while True:
        try:
            with connection.transaction():
                connection.execute("set local session_replication_role = replica")
                connection.execute("set local row_security = off")
                connection.execute(f"set local lock_timeout = {_LOCK_TIMEOUT_MS}")
                connection.execute(lock.format(Identifier(*table)))
                work()
        except errors.LockNotAvailable as exc:
            waited_s = time.monotonic() - begin
            blockers = _find_blockers(connection, table, with_readers=with_readers)
            if waited_s > options.wait_s:
                raise TargetUnavailable(
                    f"{endpoint}: table {shown_name(*table)} is locked by {blockers}, and was for"
                    f" {options.wait_s} s",
                    hint="Nothing changed yet. Run the same command again when that transaction is"
                    " over: what is copied stays copied.",
                ) from exc
            if waited_s > _TOLD_AFTER_S and blockers != told:
                told = blockers
                logger.warning("table %s is locked by %s", shown_name(*table), blockers)
            options.pause(_PAUSE_S)
        else:
            return


def _find_blockers(connection: Connection, table: tuple[str, str], *, with_readers: bool) -> str:
    """Return who has a lock that keeps us from ours, in words."""
    rows = connection.execute(
        "select l.pid, a.usename::text, extract(epoch from now() - a.xact_start)::integer"
        " from pg_locks l left join pg_stat_activity a using (pid)"
        " where l.locktype = 'relation' and l.relation = to_regclass(%s) and l.granted"
        " and l.database = (select oid from pg_database where datname = current_database())"
        " and l.pid <> pg_backend_pid()"
        " and (%s or l.mode not in ('AccessShareLock', 'RowShareLock')) order by 1",
        (Identifier(*table).as_string(), with_readers),
    ).fetchall()
    said = [
        f"pid {pid}" + (f" of {role}" if role else "") + (f" for {s} s" if s is not None else "")
        for pid, role, s in rows
    ]
    return ", ".join(said) or "another transaction"
