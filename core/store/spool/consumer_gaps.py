"""What consumers of the spool do not have: rows that changed without a change in the spool.

Replay has such a table copied again. Who was handed its changes does not see the copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pgrepl.config.naming import TableSelection
from pgrepl.postgres.connect import Connection

__all__ = ["note_gap", "read_gaps"]

_Name = tuple[str, str]


def note_gap(connection: Connection, source_id: int, name: _Name, reason: str) -> None:
    """Note for each consumer that takes in a table that it does not have everything of it."""
    rows = connection.execute(
        "select name, options -> 'tables' from replication.consumer"
        " where source_id = %s and state <> 'lost'",
        (source_id,),
    )
    concerned = [
        consumer
        for consumer, patterns in rows.fetchall()
        if TableSelection.of(patterns or ("*.*",)).matches(*name)
    ]
    if concerned:
        connection.execute(
            "insert into replication.consumer_gap"
            " (source_id, consumer_name, schema_name, table_name, reason)"
            " select %s, c, %s, %s, %s from unnest(%s::text[]) c on conflict do nothing",
            (source_id, *name, reason, concerned),
        )


def read_gaps(
    connection: Connection, ids: Sequence[int]
) -> Mapping[tuple[int, str], Mapping[_Name, str]]:
    """Return the tables of which consumers do not have everything, and why, by source and name."""
    rows = connection.execute(
        "select source_id, consumer_name, schema_name, table_name, reason"
        " from replication.consumer_gap where source_id = any (%s) order by 1, 2, 3, 4",
        (list(ids),),
    )
    found: dict[tuple[int, str], dict[_Name, str]] = defaultdict(dict)
    for source_id, consumer, schema, table, reason in rows.fetchall():
        found[source_id, consumer][schema, table] = reason
    return found
