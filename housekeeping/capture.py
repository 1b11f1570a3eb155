"""The log of captured DDL on a source, kept short.

Its rows are read from the WAL. In the sessions of the source's users nothing may be pruned: it
would take part in their transactions.
"""

from __future__ import annotations

from pgrepl.catalog.names import may_call
from pgrepl.postgres.connect import Connection

__all__ = ["prune_log"]


def prune_log(source: Connection) -> int | None:
    """Remove what is older than a week; None when there is no log, or the role may not."""
    if not may_call(source, "pgrepl", "prune", 0):
        return None
    ((count,),) = source.execute("select pgrepl.prune()").fetchall()
    return int(count)
