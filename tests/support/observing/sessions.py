"""How many sessions there were: the server counts them, all but those that stream; what one did."""

from __future__ import annotations

from pathlib import Path

import psycopg

from tests.support.database import Database
from tests.support.waiting import wait_until

_OURS = "from pg_stat_activity where datname = '{}' and application_name like 'pgrepl-%'"


def count_sessions(database: Database) -> int:
    """Return how many were begun on a database, once all of pgrepl's are over."""
    aside = Database(database.cluster, "postgres")
    # What is over has been counted.
    wait_until(lambda: not aside.rows(f"select {_OURS.format(database.name)}"))
    query = f"select sessions from pg_stat_database where datname = '{database.name}'"
    return int(aside.value(query))


def has_compiled(session: psycopg.Connection) -> bool:
    """Return whether the server compiled a query of this session: it loads LLVM for that."""
    return "llvm" in Path(f"/proc/{session.info.backend_pid}/maps").read_text(encoding="utf-8")
