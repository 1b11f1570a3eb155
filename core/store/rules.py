"""By which rules columns of a source are masked or omitted: ``rules`` of ``replication.source``.

The receiver writes them when it starts, and marks tables that had others. Whoever copies makes
certain that they are its own: a change that was received by other rules does not fit its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from pgrepl.config.rules import Rules, changed_tables
from pgrepl.errors import TargetError
from pgrepl.postgres.advisory_locks import rules_lock, share_lock, take_transaction_lock
from pgrepl.postgres.connect import Connection
from pgrepl.store.resync.resync_queue import mark_due
from pgrepl.store.tables.source_tables import read_source_tables
from pgrepl.store.tables.table_marks import mark_resync, mark_void

__all__ = [
    "INCOMPLETE_ROW",
    "RULES_CHANGED",
    "UNJUDGED_ROW",
    "are_current",
    "check_current",
    "mark_unfiltered",
    "record_rules",
    "take_rules",
]

#: Why a table has to be copied again.
RULES_CHANGED = "its rules changed: the rows here are as by the old ones until it is copied"
#: Why changes of a table whose rows are filtered were not kept.
UNJUDGED_ROW = "a change does not tell whether its row is one that the rules keep"
INCOMPLETE_ROW = "a row that the rules keep from now on came without all of its values"


def mark_unfiltered(
    connection: Connection, source_id: int, name: tuple[str, str], reason: str
) -> None:
    """Have a table copied again whose changes were not kept, and pass over others until then.

    They may be of rows that are not there.
    """
    if reason in (UNJUDGED_ROW, INCOMPLETE_ROW):
        mark_due(connection, source_id, name, reason)
        mark_void(connection, source_id, name)


def record_rules(connection: Connection, source_id: int, rules: Rules) -> None:
    """Write down the rules of a copy that begins."""
    connection.execute(
        "update replication.source set rules = %s where source_id = %s",
        (Jsonb(rules.document()), source_id),
    )


def take_rules(connection: Connection, source_id: int, rules: Rules) -> Sequence[tuple[str, str]]:
    """Write down the rules of a receiver that starts, and mark tables that had others; return them.

    In one transaction, which whoever puts copied rows in place waits for.
    """
    with connection.transaction():
        take_transaction_lock(connection, rules_lock(source_id))
        before = _read(connection, source_id)
        after = rules.document()
        if list(before) == after:
            return ()
        # Partitions have the rules of their root, which has no rows that could be copied.
        roots = _read_partitioned(connection, source_id)
        tables = read_source_tables(connection, source_id)
        keys = [table.key for table in tables if table.key not in roots]
        changed = changed_tables(before, after, keys)
        for key in changed:
            mark_resync(connection, source_id, key, RULES_CHANGED)
            mark_due(connection, source_id, key, RULES_CHANGED)
        record_rules(connection, source_id, rules)
    return changed


def are_current(connection: Connection, source_id: int, rules: Rules) -> bool:
    """Whether what is received is masked by these rules, until the open transaction ends."""
    share_lock(connection, rules_lock(source_id))
    return list(_read(connection, source_id)) == rules.document()


def check_current(connection: Connection, source_id: int, name: str, rules: Rules) -> None:
    """Make sure that rows copied by these rules fit what is received.

    Raises
    ------
    TargetError
        when the receiver runs, or ran last, with others.

    """
    if not are_current(connection, source_id, rules):
        raise TargetError(
            f'what is received of source "{name}" is masked by other rules than the configuration'
            " has",
            hint="Have pgrepl receive run with this configuration and the same salt, then run the"
            " same command.",
        )


def _read_partitioned(connection: Connection, source_id: int) -> set[tuple[str, str]]:
    rows = connection.execute(
        "select s.source_schema, coalesce(x.table_name, c.relname)::text"
        " from replication.target_schema s"
        " join pg_namespace n on n.nspname = s.target_schema"
        " join pg_class c on c.relnamespace = n.oid and c.relkind = 'p'"
        " left join replication.target_table x on (x.source_id, x.schema_name, x.target_name)"
        " = (s.source_id, s.source_schema, c.relname) where s.source_id = %s",
        (source_id,),
    )
    return set(rows.fetchall())


def _read(connection: Connection, source_id: int) -> Sequence[Mapping[str, Any]]:
    ((document,),) = connection.execute(
        "select rules from replication.source where source_id = %s", (source_id,)
    ).fetchall()
    return document or ()
