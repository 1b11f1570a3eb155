"""Locks by name, held by a session on the target: one process at a time does a piece of work."""

from __future__ import annotations

import hashlib

from pgrepl.errors import AlreadyRunning
from pgrepl.postgres import Connection

__all__ = ["copy_lock", "take_lock", "try_transaction_lock"]


def take_lock(connection: Connection, name: str) -> None:
    """Take the lock until the connection closes.

    Raises
    ------
    AlreadyRunning
        when another session holds it.

    """
    ((is_taken,),) = connection.execute("select pg_try_advisory_lock(%s)", (_key(name),)).fetchall()
    if not is_taken:
        raise AlreadyRunning(
            f"{name} runs already", hint="Wait for it to end; nothing was touched."
        )


def try_transaction_lock(connection: Connection, name: str) -> bool:
    """Take the lock until the open transaction ends; False when another session holds it."""
    ((is_taken,),) = connection.execute(
        "select pg_try_advisory_xact_lock(%s)", (_key(name),)
    ).fetchall()
    return bool(is_taken)


def copy_lock(source: str) -> str:
    """Return the name of the lock of whoever copies tables of a source, all or some again."""
    return f'basebackup of source "{source}"'


def _key(name: str) -> int:
    # 64 bits of a hash: the names are few, and a server's own locks have keys of their own kind.
    return int.from_bytes(
        hashlib.sha256(f"pgrepl/{name}".encode()).digest()[:8], "big", signed=True
    )
