"""The log of captured DDL on a source, kept short.

Its rows are read from the WAL. In the sessions of the source's users nothing may be pruned: it
would take part in their transactions.
"""

from __future__ import annotations

from pgrepl.postgres.connect import Connection

__all__ = ["prune_log"]


def prune_log(source: Connection) -> int | None:
    """Remove what is older than a week; None when there is no log, or the role may not."""
    ((may_prune,),) = source.execute(
        "select exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname = 'pgrepl' and p.proname = 'prune' and p.pronargs = 0"
        " and has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute'))"
    ).fetchall()
    if not may_prune:
        return None
    ((count,),) = source.execute("select pgrepl.prune()").fetchall()
    return int(count)
