"""Judge by a source's statistics which tables lost changes that no publication sends.

Statistics count the rows that were updated and deleted, those of transactions that rolled back too.
When they were reset, by ``pg_stat_reset()`` or by a crash of the server, they say nothing about the
time between the last look and the reset: the table may have lost changes, and is copied again once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pgrepl.publications.tables import PublishedTable
from pgrepl.store.tables.unsent import KnownUnsent, Unsent

__all__ = ["Losses", "judge_losses"]

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Losses:
    """What follows from counts, by the names that replay knows the tables by."""

    #: Rows were updated or deleted since the copy began.
    lost: frozenset[_Name]
    #: The statistics were reset meanwhile: nobody knows.
    unproven: frozenset[_Name]
    #: Tables that replay has made meanwhile, with what is counted of them first.
    first: Mapping[_Name, Unsent]


def judge_losses(
    known: Mapping[_Name, KnownUnsent],
    tables: Iterable[PublishedTable],
    counts: Mapping[_Name, Unsent],
    last_since: datetime | None,
) -> Losses:
    """Compare what copies began with and what is counted now of ``tables`` without an identity.

    ``last_since``: since when the statistics counted when they were last looked at.
    """
    names = {table.oid: table.key for table in tables}
    lost: set[_Name] = set()
    unproven: set[_Name] = set()
    first: dict[_Name, Unsent] = {}
    for name, (oid, before) in known.items():
        # Replay may not have come to the statement yet that gave the name to another table.
        now = counts.get(name if oid is None else names.get(oid, name))
        if now is None:
            continue
        is_new = before.since is None
        # What nothing was counted of yet is as old as the last look.
        since = last_since if is_new else before.since
        is_reset = since is not None and since != now.since
        if now.changes > 0 if is_reset else now.changes != before.changes:
            lost.add(name)
        elif is_reset:
            unproven.add(name)
        elif is_new:
            first[name] = now
    return Losses(frozenset(lost), frozenset(unproven), first)
