"""When something is stored for good: on disk, and on the standbys that a commit waits for.

A server that was restarted, or a session that was ended, while a commit waited for its standby
leaves it committed there and nowhere else. Whoever then tells others of it has lost it when that
standby is promoted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.errors import Diagnostic

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import TargetUnavailable
from pgrepl.postgres.connect import Connection

__all__ = ["await_standbys", "confirmed", "flush_commits"]


def flush_commits(connection: Connection) -> None:
    """Let no commit of a session return before it is on disk."""
    connection.execute(
        # A stricter setting than on is the owner's choice and stays.
        "select set_config('synchronous_commit', 'on', false)"
        " where current_setting('synchronous_commit') = 'off'"
    )


def await_standbys(connection: Connection) -> None:
    """Wait until the synchronous standbys have all that is committed; without any, for nothing."""
    flush_commits(connection)
    # A commit waits for all before it, but only one that wrote something.
    connection.execute(
        "select case when current_setting('synchronous_standby_names') <> ''"
        " then pg_logical_emit_message(true, 'pgrepl', '') end"
    )


@contextmanager
def confirmed(connection: Connection, endpoint: Endpoint) -> Iterator[None]:
    """Fail if what is committed inside may not be on the standbys.

    A wait for them that is cancelled leaves a commit that succeeds, and a warning; nothing else in
    a commit warns.
    """
    warnings: list[Diagnostic] = []

    def hear(said: Diagnostic) -> None:
        if said.severity_nonlocalized == "WARNING":
            warnings.append(said)

    connection.add_notice_handler(hear)
    try:
        yield
    finally:
        connection.remove_notice_handler(hear)
    if warnings:
        raise TargetUnavailable(
            f"{endpoint}: a commit is not confirmed by the standbys: {warnings[0].message_primary}",
            hint="Do not cancel it: it waits for synchronous_standby_names.",
        )
