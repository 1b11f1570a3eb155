"""Sessions on the target that apply changes: triggers and foreign keys stay quiet in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from pgrepl.config.dsn import Endpoint
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translate
from pgrepl.replayer.settings import ReplaySettings

__all__ = ["Use", "lend_session", "limit_statements", "limit_waits", "open_session"]

_STAGE = "replay"

#: The server keeps some kilobytes for each.
_PREPARED = 1000

#: What is done in a session: a task may read in another than it writes in, DDL has its own, and so
#: has each slice but the first.
Use = Literal["read", "write", "serial"] | int

#: Which process opened a session, the target and the lock timeout.
_Purpose = tuple[int, str, float]

#: What a session was opened for, and the session; one for each use.
_kept: dict[Use, tuple[_Purpose, Connection]] = {}


def open_session(target: Endpoint, settings: ReplaySettings) -> Connection:
    """Open a session."""
    connection = connect(target, _STAGE)
    # Tasks say the same again and again, a few things for each table.
    connection.prepare_threshold = 2
    connection.prepared_max = _PREPARED
    try:
        connection.execute(
            "select set_config('session_replication_role', 'replica', false),"
            " set_config('lock_timeout', %s, false)",
            (str(int(settings.lock_timeout_s * 1000)),),
        )
    except psycopg.Error as exc:
        connection.close()
        raise translate(exc, target, "cannot prepare the session") from exc
    return connection


def limit_waits(connection: Connection, wait_s: float) -> None:
    """Wait for no lock longer than that, until the transaction ends."""
    connection.execute(
        sql.SQL("set local lock_timeout = {}").format(sql.Literal(round(wait_s * 1000)))
    )


def limit_statements(connection: Connection, most_s: float | None) -> None:
    """Let no statement take longer than that, until the transaction ends or the session does."""
    if most_s is not None:
        is_local = connection.info.transaction_status is not TransactionStatus.IDLE
        connection.execute(
            "select set_config('statement_timeout', %s, %s)", (f"{round(most_s * 1000)}", is_local)
        )


@contextmanager
def lend_session(target: Endpoint, settings: ReplaySettings, use: Use) -> Iterator[Connection]:
    """Lend the session of this process, which is kept for the next task unless this one fails.

    A new session costs both sides more than a small batch: its server process knows no catalogue.
    """
    purpose = os.getpid(), target.dsn.text, settings.lock_timeout_s
    connection = _take(use, purpose) or open_session(target, settings)
    if use == "serial":
        # What was prepared before DDL may mean something else after it.
        connection.prepare_threshold = None
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    if _kept.setdefault(use, (purpose, connection))[1] is not connection:
        # Another thread has brought one back.
        connection.close()


def _take(use: Use, purpose: _Purpose) -> Connection | None:
    """Return the kept session, if it is for this and alive."""
    if use not in _kept:
        return None
    kept_for, connection = _kept.pop(use)
    if kept_for[0] != purpose[0]:
        # A process that was forked does not even close what belongs to its parent.
        return None
    if kept_for == purpose:
        with suppress(psycopg.Error):
            connection.execute("select")
            return connection
    connection.close()
    return None
