"""Sessions that outlive a question: a server takes forty times as long to start one as to answer.

A session is lent, and is as new when it comes back: whatever it had set, locked or prepared is
gone. One that failed, was left inside a transaction or was ended by its server is not lent again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from pgrepl.throwaway import Cluster

Session: TypeAlias = psycopg.Connection[tuple[Any, ...]]

#: By the folder of the cluster's socket, the database and the thread that asked.
_idle: dict[tuple[str, str, int], Session] = {}


@contextmanager
def lend_session(cluster: Cluster, database: str) -> Iterator[Session]:
    """Lend a session of the superuser; nobody else has it meanwhile."""
    key = (str(cluster.socket_dir), database, threading.get_ident())
    kept = _idle.pop(key, None)
    session = kept if kept is not None and _is_alive(kept) else _begin(cluster, database)
    try:
        yield session
    except BaseException:
        session.close()
        raise
    if session.info.transaction_status is TransactionStatus.IDLE and _is_as_new(session):
        _idle[key] = session
    else:
        session.close()


def hang_up(cluster: Cluster, database: str | None = None) -> None:
    """End the idle sessions on a database, or on a whole cluster."""
    for key in [*_idle]:
        if key[0] == str(cluster.socket_dir) and database in {None, key[1]}:
            _idle.pop(key).close()


def hang_up_all() -> None:
    while _idle:
        _idle.popitem()[1].close()


def _begin(cluster: Cluster, database: str) -> Session:
    # What psycopg prepared would be gone, and it would not know.
    return psycopg.connect(cluster.dsn(database), autocommit=True, prepare_threshold=None)


def _is_alive(session: Session) -> bool:
    try:
        session.execute("")
    except psycopg.Error:
        session.close()
        return False
    return True


def _is_as_new(session: Session) -> bool:
    try:
        session.execute("discard all")
        # What it changed is counted at once, as at the end of a session.
        session.execute("select pg_stat_force_next_flush()")
    except psycopg.Error:
        return False
    return True
