"""The rows of ``replication.parked_table``, ``parked_message`` and ``parked_history``.

A parked table is left alone by replay, and its changes are kept in order. Whoever goes by which
tables are parked, to apply changes or to leave them alone, shares the lock of ``follow_parking``
until its transaction ends, so that who parks tables can wait for those that have not seen it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row

from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.postgres.advisory_locks import find_transactions, parking_lock, share_lock
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.server_cursor import closed_at_the_end

__all__ = [
    "HistoryAction",
    "ParkedMessage",
    "ParkedTable",
    "ParkingKind",
    "add_history",
    "add_message",
    "change_message",
    "fail_retry",
    "find_followers",
    "find_kind",
    "follow_parking",
    "keep_parked",
    "list_parked",
    "lock_parked",
    "park_failed",
    "park_for_resync",
    "prune_parked_history",
    "read_interrupted",
    "read_messages",
    "read_parked_names",
    "read_parkings",
    "remove_message",
    "stream_payloads",
    "unpark",
]

ParkingKind = Literal["failed", "resync", "ddl", "paused", "locked"]
"""Why a table is parked.

``ddl``: set by replay when it cannot apply DDL on the table, which waits with its changes.
``failed``: set by replay when it cannot apply the table's changes, and by a retry that fails.
``locked``: set by replay when another session holds a lock on the table, until that is free.
``paused``: set by ``pgrepl pause``, until ``pgrepl resume``.
``resync``: set by a resync, before it copies the table again, unless the table is parked already.
"""

HistoryAction = Literal["park", "retry", "skip"]
"""``park`` is set by replay, ``retry`` by a retry that succeeded, ``skip`` by ``parked skip``."""

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ParkedTable:
    """A parked table and how much waits for it."""

    source_id: int
    source: str
    schema: str
    table: str
    kind: ParkingKind
    parked_at: datetime
    sqlstate: str | None
    reason: str
    retry_count: int
    change_count: int
    first_lsn: Lsn | None
    last_lsn: Lsn | None

    @property
    def name(self) -> _Name:
        """Schema and name on the source."""
        return self.schema, self.table


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedMessage:
    """Changes of a parked table, and where in the spool they stood."""

    seq: int
    part: int
    piece: int
    change_count: int
    format: str
    encoding: str
    payload: bytes


def follow_parking(connection: Connection, source_id: int) -> None:
    """Go by which tables of a source are parked, until the open transaction ends.

    To be called before the first look at them.
    """
    share_lock(connection, parking_lock(source_id))


def find_followers(connection: Connection, source_id: int) -> frozenset[str]:
    """Return the transactions that go by which tables of a source are parked."""
    return find_transactions(connection, parking_lock(source_id))


def park_failed(
    connection: Connection, source_id: int, name: _Name, sqlstate: str | None, reason: str
) -> None:
    """Park a table whose changes cannot be applied."""
    connection.execute(
        "insert into replication.parked_table"
        " (source_id, schema_name, table_name, kind, sqlstate, reason)"
        " values (%s, %s, %s, 'failed', %s, %s)",
        (source_id, *name, sqlstate, reason),
    )
    connection.execute(
        "insert into replication.parked_history"
        " (source, schema_name, table_name, action, change_count, reason)"
        " select s.name, %s, %s, 'park', 0, %s from replication.source s where source_id = %s",
        (*name, reason, source_id),
    )


def park_for_resync(connection: Connection, source_id: int, name: _Name) -> None:
    """Park a table that is to be copied again; one that is parked stays as it is.

    Whoever is working it off at this moment is waited for, and it is parked again after that.
    """
    connection.execute(
        "insert into replication.parked_table as p"
        " (source_id, schema_name, table_name, kind, reason)"
        " select source_id, schema_name, table_name, 'resync',"
        " concat_ws(': ', 'resync', resync_reason) from replication.source_table"
        " where source_id = %s and schema_name = %s and table_name = %s"
        # DO NOTHING would not wait, and the row may be about to be removed.
        " on conflict (source_id, schema_name, table_name) do update set kind = p.kind",
        (source_id, *name),
    )


def fail_retry(
    connection: Connection, source_id: int, name: _Name, sqlstate: str | None, reason: str
) -> None:
    """Record why what waits for a table still cannot be applied."""
    connection.execute(
        "update replication.parked_table set kind = 'failed', retry_count = retry_count + 1,"
        " sqlstate = %s, reason = %s"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (sqlstate, reason, source_id, *name),
    )


def unpark(connection: Connection, source_id: int, name: _Name) -> None:
    """Let replay go on with a table; what waited for it is removed, and a resync of it is over."""
    connection.execute(
        "delete from replication.resync where source_id = %s and schema_name = %s"
        " and table_name = %s and way = 'whole' and state = 'catching up'",
        (source_id, *name),
    )
    # Where changes are applied, foreign keys do not cascade.
    for table in ("parked_message", "parked_table"):
        connection.execute(
            f"delete from replication.{table}"  # noqa: S608  two names of ours
            " where source_id = %s and schema_name = %s and table_name = %s",
            (source_id, *name),
        )


def lock_parked(connection: Connection, source_id: int, name: _Name) -> bool:
    """Keep others from adding changes to a table or working it off; False when it is not parked."""
    row = connection.execute(
        "select from replication.parked_table"
        " where source_id = %s and schema_name = %s and table_name = %s for update",
        (source_id, *name),
    ).fetchone()
    return row is not None


def keep_parked(connection: Connection, source_id: int, name: _Name) -> bool:
    """Keep others from working a table off, to add to it; False when it is not parked."""
    row = connection.execute(
        "select from replication.parked_table"
        " where source_id = %s and schema_name = %s and table_name = %s for key share",
        (source_id, *name),
    ).fetchone()
    return row is not None


def find_kind(connection: Connection, source_id: int, name: _Name) -> ParkingKind | None:
    """Return why a table is parked; None: it is not."""
    row = connection.execute(
        "select kind from replication.parked_table"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *name),
    ).fetchone()
    return None if row is None else row[0]


def list_parked(connection: Connection, source: str | None = None) -> Sequence[ParkedTable]:
    """Return the parked tables, of one source or of all."""
    with connection.cursor(row_factory=class_row(ParkedTable)) as cursor:
        return cursor.execute(
            load_query("pgrepl.store", "parked_tables"), {"source": source}
        ).fetchall()


def read_parked_names(connection: Connection, source_id: int) -> Sequence[_Name]:
    """Return the parked tables of a source in the order of their names.

    Neither those that a person paused nor those that only wait for a lock.
    """
    rows = connection.execute(
        "select schema_name::text, table_name::text from replication.parked_table"
        " where source_id = %s and kind not in ('paused', 'locked') order by 1, 2",
        (source_id,),
    )
    return [(schema, name) for schema, name in rows]


def read_parkings(connection: Connection, source_id: int) -> Mapping[_Name, bool]:
    """Return the parked tables of a source, and of each whether it goes on by itself.

    That is after a resync or when a lock is free. A table that is copied again may have been
    parked by a failure before.
    """
    rows = connection.execute(
        "select p.schema_name::text, p.table_name::text,"
        " coalesce(t.state = 'copying', false) or p.kind in ('resync', 'locked')"
        " from replication.parked_table p"
        " left join replication.source_table t using (source_id, schema_name, table_name)"
        " where source_id = %s",
        (source_id,),
    )
    return {(schema, name): goes_on for schema, name, goes_on in rows}


def read_interrupted(connection: Connection, source_id: int) -> Mapping[_Name, int | None]:
    """Return the tables that a resync has in hand, or had when it was broken off.

    Each with the number of the DDL that waits with it, if any does.
    """
    rows = connection.execute(
        "select schema_name::text, table_name::text, group_id from replication.parked_table"
        " join replication.source_table using (source_id, schema_name, table_name)"
        " where source_id = %s and state = 'copying'",
        (source_id,),
    )
    return {(schema, name): group_id for schema, name, group_id in rows}


def add_message(
    connection: Connection,
    source_id: int,
    name: _Name,
    message: ParkedMessage,
    *,
    first_lsn: Position,
    last_lsn: Position,
    last_commit_at: str,
) -> None:
    """Keep changes of a parked table."""
    connection.execute(
        "insert into replication.parked_message (source_id, schema_name, table_name, seq, part,"
        " piece, first_lsn, last_lsn, last_commit_at, change_count, format, encoding, payload)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %b)",
        (
            *(source_id, *name, message.seq, message.part, message.piece),
            *(first_lsn, last_lsn, last_commit_at),
            *(message.change_count, message.format, message.encoding, message.payload),
        ),
    )


def stream_payloads(
    connection: Connection, source_id: int, name: _Name, to_seq: int | None = None
) -> Iterator[tuple[str, str, bytes, int]]:
    """Return what waits for a table, up to a segment, in order.

    Each as its format, encoding, payload and number of changes.
    """
    # Holdable, for those who read outside a transaction.
    waiting = connection.cursor("pgrepl_parked", withhold=True, binary=True)
    with closed_at_the_end(waiting) as cursor:
        cursor.itersize = 1
        cursor.execute(
            "select format, encoding, payload, change_count from replication.parked_message"
            " where source_id = %s and schema_name = %s and table_name = %s"
            " and (%s::bigint is null or seq <= %s) order by seq, part, piece",
            (source_id, *name, to_seq, to_seq),
        )
        yield from cursor


def read_messages(
    connection: Connection, source_id: int, name: _Name, through: Lsn | None
) -> Sequence[ParkedMessage]:
    """Return what waits for a table and began up to a position, or all of it, in order."""
    with connection.cursor(row_factory=class_row(ParkedMessage)) as cursor:
        return cursor.execute(
            "select seq, part, piece, change_count, format, encoding, payload"
            " from replication.parked_message"
            " where source_id = %s and schema_name = %s and table_name = %s"
            " and (%s::pg_lsn is null or first_lsn <= %s) order by seq, part, piece",
            (source_id, *name, through, through),
        ).fetchall()


def change_message(
    connection: Connection,
    source_id: int,
    name: _Name,
    message: ParkedMessage,
    *,
    payload: bytes,
    change_count: int,
) -> None:
    """Replace changes of a parked table by some of them."""
    connection.execute(
        "update replication.parked_message set payload = %s, change_count = %s"
        " where source_id = %s and schema_name = %s and table_name = %s"
        " and seq = %s and part = %s and piece = %s",
        (
            *(payload, change_count, source_id, *name),
            *(message.seq, message.part, message.piece),
        ),
    )


def remove_message(
    connection: Connection, source_id: int, name: _Name, message: ParkedMessage
) -> None:
    """Remove changes of a parked table."""
    connection.execute(
        "delete from replication.parked_message"
        " where source_id = %s and schema_name = %s and table_name = %s"
        " and seq = %s and part = %s and piece = %s",
        (source_id, *name, message.seq, message.part, message.piece),
    )


def add_history(
    connection: Connection,
    table: ParkedTable,
    action: HistoryAction,
    change_count: int,
    last_lsn: Lsn | None,
) -> None:
    """Record what became of changes that waited."""
    connection.execute(
        "insert into replication.parked_history"
        " (source, schema_name, table_name, action, change_count, last_lsn, reason)"
        " values (%s, %s, %s, %s, %s, %s, %s)",
        (table.source, *table.name, action, change_count, last_lsn, table.reason),
    )


def prune_parked_history(connection: Connection, source: str, horizon: datetime) -> int:
    """Remove history that is older than this; return how many rows."""
    return connection.execute(
        "delete from replication.parked_history where source = %s and at < %s", (source, horizon)
    ).rowcount
