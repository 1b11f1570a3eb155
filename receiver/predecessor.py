"""Whether the session that keeps us from receiving belongs to a receiver that is alive.

A receiver that was just killed leaves a session that ends by itself: at once when it waits for its
client, else with the statement in hand. So one that goes on waiting for its client has one, and so
has one that gets new statements. Only a connection that died without a word looks alive; nobody
waits for that one.
"""

from __future__ import annotations

import time

from pgrepl.postgres.advisory_locks import find_holder
from pgrepl.postgres.connect import Connection

__all__ = ["is_alive"]

_LOOKS = 4
_INTERVAL_S = 0.1


def is_alive(connection: Connection, lock: str) -> bool:
    """Look for a while at the session that holds a lock; false when in doubt."""
    pid = find_holder(connection, lock)
    if pid is None:
        return False
    seen = []
    for look in range(_LOOKS):
        if look:
            time.sleep(_INTERVAL_S)
        row = connection.execute(
            "select wait_event, query_start from pg_stat_activity where pid = %s", (pid,)
        ).fetchone()
        if row is None:
            return False
        seen.append(row)
    is_waiting = all(wait_event == "ClientRead" for wait_event, _ in seen)
    starts = {query_start for _, query_start in seen}
    return is_waiting or len(starts) > 1
