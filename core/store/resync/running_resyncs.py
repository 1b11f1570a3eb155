"""The rows of ``replication.resync``: tables that are being copied while streaming goes on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from psycopg.rows import class_row

from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection

__all__ = [
    "Amount",
    "ResyncRow",
    "ResyncState",
    "Way",
    "add_progress",
    "ask_cancel",
    "fail_resync",
    "find_orphans",
    "find_resync",
    "find_resync_now",
    "is_any_cancelled",
    "is_cancelled",
    "read_amount",
    "read_resyncs",
    "remove_resync",
    "request_resync",
    "set_chunk_estimate",
    "set_copied",
    "set_resync_state",
    "set_snapshot",
    "set_structure",
    "start_resync",
]

Way = Literal["whole", "chunked"]
"""``whole``: under one snapshot, into a shadow. ``chunked``: key ranges, into the live table."""

ResyncState = Literal["requested", "copying", "copied", "catching up"]
"""How far a resync is.

``requested``: set by who asks for it; nothing of the table is touched yet.
``copying``: set by the resync before the first row is read.
``copied``: set by the resync when the shadow has all rows, or all chunks are in the stream.
``catching up``: set by a whole resync, when the table has the rows and what waited is applied.
A resync that is done, or cancelled, has no row.
"""

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ResyncRow:
    """One table under resync, by its name on the source."""

    resync_id: int
    source_id: int
    schema_name: str
    table_name: str
    source_oid: int
    way: Way
    is_first: bool
    state: ResyncState
    #: The state and the resync reason of the table's row before; None: it had none.
    state_before: str | None
    reason_before: str | None
    requested_at: datetime
    requested_by: str
    started_at: datetime | None
    updated_at: datetime
    #: PostgreSQL's text of a ``pg_snapshot``, and a position read after it.
    snapshot: str | None
    lsn: Lsn | None
    #: Bytes a second.
    max_rate: int | None
    is_cancelled: bool
    row_count: int
    byte_count: int
    chunk_count: int
    row_estimate: int | None
    byte_estimate: int | None
    chunk_estimate: int | None
    last_key: Sequence[str] | None
    error: str | None
    #: A fingerprint of the structure that the copy is given with the rows; None: it has it.
    structure: str | None
    #: A fingerprint of the masks that its rows are copied with; None: it has none.
    rules: str | None = None

    @property
    def key(self) -> _Name:
        """Schema and name on the source."""
        return self.schema_name, self.table_name


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a table is copied, and how much it is expected to be."""

    row_count: int
    byte_count: int
    chunk_count: int
    row_estimate: int | None
    byte_estimate: int | None

    @property
    def part(self) -> float | None:
        """Which part of it that is, from 0 to 1; None: nobody knows."""
        # A table that was never analyzed has no estimate of rows.
        if self.row_estimate:
            return min(self.row_count / self.row_estimate, 1.0)
        return min(self.byte_count / self.byte_estimate, 1.0) if self.byte_estimate else None


_COLUMNS = (
    "resync_id, source_id, schema_name::text, table_name::text, source_oid, way, is_first, state,"
    " state_before, reason_before, requested_at, requested_by::text, started_at, updated_at,"
    " snapshot::text, lsn, max_rate, is_cancelled, row_count, byte_count, chunk_count,"
    " row_estimate, byte_estimate, chunk_estimate, last_key, error,"
    " structure, rules"
)


def read_resyncs(connection: Connection, source_id: int) -> Sequence[ResyncRow]:
    """Return the tables of a source that are under resync, in the order of their names."""
    with connection.cursor(row_factory=class_row(ResyncRow)) as cursor:
        return cursor.execute(
            f"select {_COLUMNS} from replication.resync"  # noqa: S608  names of ours
            " where source_id = %s order by 3, 4",
            (source_id,),
        ).fetchall()


def find_resync(connection: Connection, source_id: int, name: _Name) -> ResyncRow | None:
    """Return the resync of a table, if there is one."""
    with connection.cursor(row_factory=class_row(ResyncRow)) as cursor:
        return cursor.execute(
            f"select {_COLUMNS} from replication.resync"  # noqa: S608  names of ours
            " where source_id = %s and schema_name = %s and table_name = %s",
            (source_id, *name),
        ).fetchone()


def find_resync_now(connection: Connection, resync_id: int) -> ResyncRow | None:
    """Return a resync as it is now, of a table by its name of now; None: it has ended."""
    with connection.cursor(row_factory=class_row(ResyncRow)) as cursor:
        return cursor.execute(
            f"select {_COLUMNS} from replication.resync where resync_id = %s",  # noqa: S608  names of ours
            (resync_id,),
        ).fetchone()


def request_resync(
    connection: Connection,
    source_id: int,
    name: _Name,
    *,
    oid: int,
    way: Way,
    is_first: bool,
    max_rate: int | None,
    row_estimate: int | None = None,
    byte_estimate: int | None = None,
    rules: str | None = None,
) -> ResyncRow:
    """Record that a table is to be copied, and how it is now, unless that stands there already.

    What stands there goes on with the rate asked for now, and is not cancelled any more. While
    chunks of a table are in the stream, replay goes by them: its way is another one only when it
    starts over, see ``start_resync``.
    """
    with connection.cursor(row_factory=class_row(ResyncRow)) as cursor:
        (row,) = cursor.execute(
            "insert into replication.resync as r (source_id, schema_name, table_name, source_oid,"  # noqa: S608  names of ours
            " way, is_first, max_rate, row_estimate, byte_estimate, rules, state_before,"
            " reason_before)"
            " values (%(source)s, %(schema)s, %(table)s, %(oid)s, %(way)s, %(is_first)s,"
            " %(max_rate)s, %(row_estimate)s, %(byte_estimate)s, %(rules)s,"
            " (select state from replication.source_table where source_id = %(source)s"
            " and schema_name = %(schema)s and table_name = %(table)s),"
            " (select resync_reason from replication.source_table where source_id = %(source)s"
            " and schema_name = %(schema)s and table_name = %(table)s))"
            " on conflict (source_id, schema_name, table_name) do update"
            " set max_rate = excluded.max_rate, is_cancelled = false, error = null,"
            " way = case when r.key_columns is null then excluded.way else r.way end,"
            " is_first = excluded.is_first, source_oid = excluded.source_oid,"
            " row_estimate = excluded.row_estimate, byte_estimate = excluded.byte_estimate,"
            " rules = excluded.rules,"
            " resumed_at = clock_timestamp(), rows_before = r.row_count,"
            " bytes_before = r.byte_count, updated_at = clock_timestamp()"
            f" returning {_COLUMNS}",
            {
                "source": source_id,
                "schema": name[0],
                "table": name[1],
                "oid": oid,
                "way": way,
                "is_first": is_first,
                "max_rate": max_rate,
                "row_estimate": row_estimate,
                "byte_estimate": byte_estimate,
                "rules": rules,
            },
        ).fetchall()
    return row


def start_resync(connection: Connection, resync_id: int, name: _Name, way: Way) -> bool:
    """Record that a table is copied from the first row on: what was counted before is void.

    False: DDL that was applied since it was asked for has removed it, or given it another name.
    """
    started = connection.execute(
        "update replication.resync set state = 'copying', way = %s, error = null, snapshot = null,"
        " lsn = null, row_count = 0, byte_count = 0, chunk_count = 0, last_key = null,"
        " key_columns = null, table_version = null, chunk_estimate = null, hidden_name = null,"
        " first_snapshot = null, first_lsn = null,"
        " resumed_at = clock_timestamp(), rows_before = 0, bytes_before = 0,"
        " started_at = clock_timestamp(), updated_at = clock_timestamp()"
        " where resync_id = %s and schema_name = %s and table_name = %s",
        (way, resync_id, *name),
    )
    return started.rowcount > 0


def set_structure(connection: Connection, resync_id: int, structure: str | None) -> None:
    """Record which structure the copy is given together with the rows, if it is another one."""
    connection.execute(
        "update replication.resync set structure = %s where resync_id = %s",
        (structure, resync_id),
    )


def set_snapshot(connection: Connection, resync_id: int, *, snapshot: str | None, lsn: Lsn) -> None:
    """Record under which snapshot a table, or the last chunk of it, is copied."""
    connection.execute(
        "update replication.resync set snapshot = %s::pg_snapshot, lsn = %s,"
        " updated_at = clock_timestamp() where resync_id = %s",
        (snapshot, lsn, resync_id),
    )


def set_copied(connection: Connection, resync_id: int, *, rows: int, bytes_: int) -> None:
    """Record that a shadow has all rows that its snapshot sees, and how many they are."""
    connection.execute(
        "update replication.resync set state = 'copied', row_count = %s, byte_count = %s,"
        " updated_at = clock_timestamp() where resync_id = %s",
        (rows, bytes_, resync_id),
    )


def set_resync_state(connection: Connection, resync_id: int, state: ResyncState) -> None:
    """Record how far a resync is."""
    connection.execute(
        "update replication.resync set state = %s, updated_at = clock_timestamp()"
        " where resync_id = %s",
        (state, resync_id),
    )


def add_progress(
    connection: Connection,
    resync_id: int,
    *,
    rows: int,
    bytes_: int,
    chunks: int = 0,
    last_key: Sequence[str] | None = None,
) -> None:
    """Count what was copied, and up to which key."""
    connection.execute(
        "update replication.resync set row_count = row_count + %s, byte_count = byte_count + %s,"
        " chunk_count = chunk_count + %s, last_key = coalesce(%s::text[], last_key),"
        " updated_at = clock_timestamp() where resync_id = %s",
        (rows, bytes_, chunks, None if last_key is None else list(last_key), resync_id),
    )


def read_amount(connection: Connection, resync_id: int) -> Amount:
    """Return how much of a table is copied."""
    with connection.cursor(row_factory=class_row(Amount)) as cursor:
        (amount,) = cursor.execute(
            "select row_count, byte_count, chunk_count, row_estimate, byte_estimate"
            " from replication.resync where resync_id = %s",
            (resync_id,),
        ).fetchall()
    return amount


def set_chunk_estimate(connection: Connection, resync_id: int, count: int | None) -> None:
    """Record how many chunks are expected in all."""
    connection.execute(
        "update replication.resync set chunk_estimate = %s where resync_id = %s",
        (count, resync_id),
    )


def ask_cancel(connection: Connection, resync_ids: Collection[int]) -> None:
    """Ask whoever runs these resyncs to end."""
    connection.execute(
        "update replication.resync set is_cancelled = true where resync_id = any (%s)",
        (list(resync_ids),),
    )


def is_any_cancelled(connection: Connection, resync_ids: Collection[int]) -> bool:
    """Whether one of these was asked to end; one that has no row any more was not."""
    return bool(is_cancelled(connection, resync_ids, ignores_missing=True))


def is_cancelled(
    connection: Connection, resync_ids: Collection[int], *, ignores_missing: bool = False
) -> bool | None:
    """Whether one of these was asked to end; None: one of them has no row any more."""
    ((is_any, count),) = connection.execute(
        "select coalesce(bool_or(is_cancelled), false), count(*)"
        " from replication.resync where resync_id = any (%s)",
        (list(resync_ids),),
    ).fetchall()
    return None if count < len(resync_ids) and not ignores_missing else bool(is_any)


def fail_resync(connection: Connection, resync_id: int, error: str) -> None:
    """Keep why a table could not be copied; the next attempt goes on from its state."""
    connection.execute(
        "update replication.resync set error = %s, updated_at = clock_timestamp()"
        " where resync_id = %s",
        (error, resync_id),
    )


def remove_resync(connection: Connection, resync_id: int) -> None:
    """Forget a resync that is done or cancelled."""
    connection.execute("delete from replication.resync where resync_id = %s", (resync_id,))


def find_orphans(connection: Connection) -> Sequence[int]:
    """Return the resyncs that are no more and left a shadow behind."""
    rows = connection.execute(
        "select substr(c.relname, 8)::bigint from pg_class c"
        " where c.relnamespace = 'replication'::regnamespace and c.relkind = 'r'"
        " and c.relname ~ '^shadow_[0-9]+$' and not exists (select from replication.resync r"
        " where r.resync_id = substr(c.relname, 8)::bigint)"
    )
    return [resync_id for (resync_id,) in rows]
