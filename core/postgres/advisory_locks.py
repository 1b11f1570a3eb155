"""Locks by name, held by a session on the target: one process at a time does a piece of work."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

from psycopg.sql import SQL

from pgrepl.config.naming import shown_name
from pgrepl.errors import AlreadyRunning
from pgrepl.postgres.connect import Connection

__all__ = [
    "copy_lock",
    "export_lock",
    "find_holder",
    "find_pids",
    "find_transactions",
    "parking_lock",
    "pass_lock",
    "receive_lock",
    "resync_lock",
    "resync_run_lock",
    "rules_lock",
    "share_lock",
    "share_session_lock",
    "slice_lock",
    "take_lock",
    "take_transaction_lock",
    "try_lock",
    "try_transaction_lock",
    "try_transaction_share",
]

_HELD = SQL(
    "pg_locks where locktype = 'advisory' and granted and objsubid = 1"
    " and database = (select oid from pg_database where datname = current_database())"
    " and (classid::bigint << 32 | objid::bigint) = %(key)s"
)


def take_lock(connection: Connection, name: str) -> None:
    """Take the lock until the connection closes.

    Raises
    ------
    AlreadyRunning
        when another session holds it.

    """
    if not try_lock(connection, name):
        raise _running(connection, name)


def share_session_lock(connection: Connection, name: str) -> None:
    """Hold the lock together with others until the connection closes.

    Raises
    ------
    AlreadyRunning
        when another session has it for itself.

    """
    ((is_taken,),) = connection.execute(
        "select pg_try_advisory_lock_shared(%s)", (_key(name),)
    ).fetchall()
    if not is_taken:
        raise _running(connection, name)


def try_lock(connection: Connection, name: str) -> bool:
    """Take the lock until the connection closes; False when another session holds it."""
    ((is_taken,),) = connection.execute("select pg_try_advisory_lock(%s)", (_key(name),)).fetchall()
    return bool(is_taken)


def find_holder(connection: Connection, name: str) -> int | None:
    """Return the server process that holds the lock; None when there is none any more."""
    row = connection.execute(
        SQL("select pid from {}").format(_HELD), {"key": _key(name)}
    ).fetchone()
    return None if row is None else int(row[0])


def share_lock(connection: Connection, name: str) -> None:
    """Hold the lock together with others until the open transaction ends."""
    connection.execute("select pg_advisory_xact_lock_shared(%s)", (_key(name),))


def take_transaction_lock(connection: Connection, name: str) -> None:
    """Wait until nobody holds the lock, and take it until the open transaction ends."""
    connection.execute("select pg_advisory_xact_lock(%s)", (_key(name),))


def pass_lock(connection: Connection, name: str) -> None:
    """Wait until nobody holds the lock, neither alone nor with others."""
    # In the order of the list; an error in between leaves nothing locked.
    connection.execute(
        "select pg_advisory_lock(%(key)s), pg_advisory_unlock(%(key)s)", {"key": _key(name)}
    )


def find_transactions(connection: Connection, name: str) -> frozenset[str]:
    """Return the transactions that hold the lock, as PostgreSQL numbers them while they last."""
    rows = connection.execute(
        SQL("select virtualtransaction from {}").format(_HELD), {"key": _key(name)}
    )
    return frozenset(transaction for (transaction,) in rows)


def find_pids(connection: Connection, transactions: Collection[str]) -> Sequence[int]:
    """Return the server processes of transactions, by PostgreSQL's numbers of them."""
    rows = connection.execute(
        "select distinct pid from pg_locks where virtualtransaction = any (%s) order by pid",
        (list(transactions),),
    )
    return [pid for (pid,) in rows]


def try_transaction_lock(connection: Connection, name: str) -> bool:
    """Take the lock until the open transaction ends; False when another session holds it."""
    ((is_taken,),) = connection.execute(
        "select pg_try_advisory_xact_lock(%s)", (_key(name),)
    ).fetchall()
    return bool(is_taken)


def try_transaction_share(connection: Connection, name: str) -> bool:
    """Hold the lock together with others until the open transaction ends, if nobody has it."""
    ((is_taken,),) = connection.execute(
        "select pg_try_advisory_xact_lock_shared(%s)", (_key(name),)
    ).fetchall()
    return bool(is_taken)


def copy_lock(source: str) -> str:
    """Return the name of the lock of whoever copies a source; resyncs of its tables share it."""
    return f'basebackup of source "{source}"'


def resync_lock(source: str, table: tuple[str, str]) -> str:
    """Return the name of the lock of whoever copies one table while streaming goes on."""
    return f'resync of table {shown_name(*table)} of source "{source}"'


def resync_run_lock(resync_id: int) -> str:
    """Return the name of the lock of whoever copies a table, by whatever name it has by now."""
    return f"resync {resync_id}"


def receive_lock(source: str) -> str:
    """Return the name of the lock of a source's receiver."""
    return f'receive of source "{source}"'


def export_lock(source: str, consumer: str) -> str:
    """Return the name of the lock of whoever hands on a source's changes as one consumer."""
    return f'export of source "{source}" as consumer "{consumer}"'


def parking_lock(source_id: int) -> str:
    """Return the name of the lock that those share who go by which tables are parked."""
    return f"parked tables of source {source_id}"


def rules_lock(source_id: int) -> str:
    """Return the name of the lock that those share who put rows in place that rules masked."""
    return f"rules of source {source_id}"


def _running(connection: Connection, name: str) -> AlreadyRunning:
    hint = "Wait for it to end; nothing was touched."
    # Whoever may connect to the target can hold it, and pgrepl need not run at all.
    for pid, role, program in connection.execute(
        SQL(
            "select pid, usename::text, application_name from pg_stat_activity"
            " where pid in (select pid from {}) order by pid"
        ).format(_HELD),
        {"key": _key(name)},
    ):
        told = ", ".join(filter(None, (program, f"role {role}" if role else "")))
        hint += f" Its lock is held by process {pid} ({told})."
    return AlreadyRunning(f"{name} runs already", hint=hint)


def slice_lock(source_id: int, shard: int) -> str:
    """Return the name of the lock that those share who apply a shard's slices."""
    return f"slices of shard {shard} of source {source_id}"


def _key(name: str) -> int:
    # 64 bits of a hash: the names are few, and a server's own locks have keys of their own kind.
    return int.from_bytes(
        hashlib.sha256(f"pgrepl/{name}".encode()).digest()[:8], "big", signed=True
    )
