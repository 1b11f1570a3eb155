"""Foreign keys that are made when what waited is applied: until then rows they refer to may miss.

Each is named among what the copy has not, with its statement, until it is made: whoever is killed
before that leaves word of it, and the next resync of the source makes it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import psycopg

from pgrepl.config.naming import shown_name
from pgrepl.failpoint import reach
from pgrepl.postgres.sqlstate import reason, translated
from pgrepl.resync.sides import Sides
from pgrepl.store.tables.copy_work import RUN, LeftOutRow, read_left_out, remove_left_out

__all__ = ["LOCK_TIMEOUT", "is_late", "late_key", "make_late_keys"]

logger = logging.getLogger(__name__)

LOCK_TIMEOUT = "set local lock_timeout = '10s'"

_KIND = "foreign key"
_BEGIN = "not made yet "
_RUN = f"; {RUN}"


def late_key(schema: str, table: str, why: str, sql: str) -> LeftOutRow:
    """Return how a foreign key is named until it is made by a statement. Pure."""
    return LeftOutRow(_KIND, shown_name(schema, table), f"{_BEGIN}{why}{_RUN}{sql}")


def is_late(item: LeftOutRow) -> bool:
    """Whether what the copy has not is a foreign key that is still to be made. Pure."""
    return item.kind == _KIND and item.reason.startswith(_BEGIN)


def make_late_keys(sides: Sides) -> None:
    """Make the foreign keys of a source that are named so; one that cannot be made stays named."""
    with translated(sides.endpoint, "cannot make the foreign keys"):
        left = [item for item in read_left_out(sides.target, sides.source_id) if is_late(item)]
        failed = _make(sides, left)
        # One may need another: it is made first, and checked later.
        while failed and len(failed) < len(left):
            left = list(failed)
            failed = _make(sides, left)
        # Another resync may have made it meanwhile.
        still = set(read_left_out(sides.target, sides.source_id)) if failed else set()
    for item, why in failed.items():
        if item not in still:
            continue
        logger.warning("a foreign key of %s is left to you: %s", item.name, why)


def _make(sides: Sides, items: list[LeftOutRow]) -> Mapping[LeftOutRow, str]:
    """Make some, and return those that cannot be made, each with why."""
    failed: dict[LeftOutRow, str] = {}
    for item in items:
        try:
            with sides.target.transaction():
                sides.target.execute(LOCK_TIMEOUT)
                sides.target.execute(item.reason.partition(_RUN)[2].encode())
                remove_left_out(sides.target, sides.source_id, item)
            reach("resync.late_key_made")
        except psycopg.Error as exc:
            if sides.target.closed:
                raise
            failed[item] = reason(exc)
    return failed
