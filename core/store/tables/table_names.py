"""Tables that DDL drops or renames, in all that is noted of them by their names on the source.

The receiver is ahead of replay: what it notes of a name may be about a table that replay has yet to
make, while it has yet to drop or rename the one that has the name on the target now.
"""

from __future__ import annotations

from psycopg.sql import SQL

from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.store.tables.table_marks import add_lost_table

__all__ = ["forget_unknown", "remove_table", "rename_table"]

_Name = tuple[str, str]

#: What goes with a table that is dropped, and follows one that is renamed. Where DDL is applied,
#: foreign keys do not cascade.
_BY_TABLE = ("source_table", "conflict", "skipped_code", "resync_due", "resync")


def remove_table(
    connection: Connection, source_id: int, name: _Name, lsn: Position | None = None
) -> None:
    """Forget a table that DDL at a position removed, and what was noted of it.

    What the receiver noted beyond that position is about another table of that name, which is to
    come, and waits for it.
    """
    later = connection.execute(
        "select resync_reason, lost_lsn from replication.source_table where source_id = %s"
        " and schema_name = %s and table_name = %s and lost_lsn > %s",
        (source_id, *name, lsn),
    ).fetchone()
    for table in _BY_TABLE:
        connection.execute(
            SQL(
                "delete from replication.{} where source_id = %s and schema_name = %s"
                " and table_name = %s"
            ).format(SQL(table)),
            (source_id, *name),
        )
    if later is not None:
        add_lost_table(connection, source_id, name, *later)


def rename_table(
    connection: Connection, source_id: int, was: _Name, now: _Name, lsn: Position
) -> None:
    """Give a table, and what was noted of it, the name that DDL at a position gave it.

    What the receiver noted beyond that position is about whatever had the name then: it stays with
    the new name, and for the old name it waits for another table. It is not known which of several
    losses was when, so that a table may be marked for nothing.
    """
    later = connection.execute(
        "select (schema_name, table_name) = (%s, %s), resync_reason, lost_lsn"
        " from replication.source_table where source_id = %s and lost_lsn > %s"
        " and (schema_name, table_name) in ((%s, %s), (%s, %s))",
        (*now, source_id, lsn, *was, *now),
    ).fetchall()
    remove_table(connection, source_id, now)
    for table in _BY_TABLE:
        connection.execute(
            SQL(
                "update replication.{} set schema_name = %s, table_name = %s where source_id = %s"
                " and schema_name = %s and table_name = %s"
            ).format(SQL(table)),
            (*now, source_id, *was),
        )
    # What the moved table lost itself was before it moved.
    connection.execute(
        "update replication.source_table set lost_lsn = %s where source_id = %s"
        " and schema_name = %s and table_name = %s and lost_lsn > %s",
        (lsn, source_id, *now, lsn),
    )
    for is_new_name, reason, lost_lsn in later:
        add_lost_table(connection, source_id, now if is_new_name else was, reason, lost_lsn)


def forget_unknown(
    connection: Connection, source_id: int, name: _Name, lsn: Position, *, is_made_again: bool
) -> None:
    """Forget a table that DDL at a position dropped before any copy had it.

    What was lost in the same transaction is noted at its end, and was lost before the drop unless
    the transaction made the table again.
    """
    connection.execute(
        load_query("pgrepl.store.tables", "forget_unknown"),
        {
            "source_id": source_id,
            "schema": name[0],
            "name": name[1],
            "lsn": lsn,
            "is_made_again": is_made_again,
        },
    )
