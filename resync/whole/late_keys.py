"""Foreign keys that are made when what waited is applied: until then rows they refer to may miss.

Each is named among what the copy has not, with its statement, until it is made: whoever is killed
before that leaves word of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import psycopg

from pgrepl.config.naming import shown_name
from pgrepl.postgres.sqlstate import reason
from pgrepl.resync.sides import Sides
from pgrepl.store.tables.copy_work import LeftOutRow, remove_left_out

__all__ = ["LOCK_TIMEOUT", "late_key", "make_late_keys"]

logger = logging.getLogger(__name__)

LOCK_TIMEOUT = "set local lock_timeout = '10s'"


def late_key(schema: str, table: str, why: str, sql: str) -> tuple[LeftOutRow, str]:
    """Return how a foreign key is named until it is made, and what makes it. Pure."""
    item = LeftOutRow("foreign key", shown_name(schema, table), f"not made yet {why}; run: {sql}")
    return item, sql


def make_late_keys(sides: Sides, keys: Iterable[tuple[LeftOutRow, str]]) -> None:
    """Make foreign keys; one that cannot be made stays named."""
    for item, sql in keys:
        try:
            with sides.target.transaction():
                sides.target.execute(LOCK_TIMEOUT)
                sides.target.execute(sql.encode())
                remove_left_out(sides.target, sides.source_id, item)
        except psycopg.Error as exc:
            if sides.target.closed:
                raise
            logger.warning("a foreign key of %s is left to you: %s", item.name, reason(exc))
