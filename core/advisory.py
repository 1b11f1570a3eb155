"""Locks by name, held by a session on the target: one process at a time does a piece of work."""

from __future__ import annotations

import hashlib

from pgrepl.errors import AlreadyRunning
from pgrepl.postgres import Connection

__all__ = ["take_lock"]


def take_lock(connection: Connection, name: str) -> None:
    """Take the lock until the connection closes.

    Raises
    ------
    AlreadyRunning
        when another session holds it.

    """
    # 64 bits of a hash: the names are few, and a server's own locks have keys of their own kind.
    key = int.from_bytes(hashlib.sha256(f"pgrepl/{name}".encode()).digest()[:8], "big", signed=True)
    ((is_taken,),) = connection.execute("select pg_try_advisory_lock(%s)", (key,)).fetchall()
    if not is_taken:
        raise AlreadyRunning(
            f"{name} runs already", hint="Wait for it to end; nothing was touched."
        )
