"""The rows of ``replication.resync_chunk``, ``resync_key`` and ``resync_xid``.

They belong to a row of ``replication.resync`` of a table that is copied in chunks. Whoever reads or
writes them has locked that row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection

__all__ = [
    "ChunkRow",
    "KeyText",
    "LiveCopy",
    "add_chunk",
    "add_rereads",
    "add_xids",
    "begin_live",
    "cancel_live",
    "count_left",
    "end_live",
    "find_live_copy",
    "note_first",
    "note_set_aside",
    "pass_chunks",
    "read_chunk_rows",
    "read_keys",
    "read_last_chunk",
    "read_rereads",
    "read_xids",
    "remove_chunks",
    "remove_xids",
    "restart_chunks",
    "set_chunk_key",
    "set_reread",
    "set_version",
]

_Name = tuple[str, str]
#: The values of a key as texts, in the order of its columns.
KeyText = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveCopy:
    """A table that chunks are put into while its changes are applied."""

    resync_id: int
    key: Sequence[str]
    #: The end of the last range; None: there was none yet.
    last_key: Sequence[str] | None
    #: Whether all ranges are in the table.
    is_copied: bool
    #: See ``read_versions`` in ``target_tables``.
    version: str | None
    is_cancelled: bool


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk that changes may still arrive for."""

    number: int
    is_range: bool
    low: Sequence[str] | None
    high: Sequence[str] | None
    #: PostgreSQL's text of a ``pg_snapshot``.
    snapshot: str
    lsn: Lsn


def find_live_copy(
    connection: Connection, source_id: int, name: _Name, resync_id: int | None = None
) -> LiveCopy | None:
    """Return a table that is copied in chunks, its row locked; None when it is not.

    ``resync_id``: by this resync, and not by that of another table which has got the name.
    """
    with connection.cursor(row_factory=class_row(LiveCopy)) as cursor:
        return cursor.execute(
            "select resync_id, key_columns as key, last_key, state = 'copied' as is_copied,"
            " table_version as version, is_cancelled from replication.resync"
            " where source_id = %s and schema_name = %s and table_name = %s and way = 'chunked'"
            " and key_columns is not null and resync_id = coalesce(%s, resync_id) for update",
            (source_id, *name, resync_id),
        ).fetchone()


def begin_live(connection: Connection, source_id: int, name: _Name) -> None:
    """Take a live table in hand; why it needs that stands in its row of ``resync``."""
    # A loss that is noted from here on may be none of the copy's, and stays.
    connection.execute(
        "update replication.source_table set resync_reason = null, lost_lsn = null"
        " where source_id = %s and schema_name = %s and table_name = %s",
        (source_id, *name),
    )


def end_live(connection: Connection, resync_id: int) -> None:
    """Record that a live table has been copied, and that replay has passed all chunks.

    Its copy began with the first of them: what that one contains, all do.
    """
    connection.execute(
        "update replication.source_table t set row_count = r.row_count,"
        " byte_count = r.byte_count, source_oid = r.source_oid, copied_at = now(),"
        " start_lsn = r.first_lsn, start_snapshot = r.first_snapshot,"
        " seconds = extract(epoch from clock_timestamp() - r.started_at)"
        " from replication.resync r where r.resync_id = %s and t.source_id = r.source_id"
        " and t.schema_name = r.schema_name and t.table_name = r.table_name",
        (resync_id,),
    )
    connection.execute(
        "delete from replication.resync_due d using replication.resync r where r.resync_id = %s"
        " and d.source_id = r.source_id and d.schema_name = r.schema_name"
        " and d.table_name = r.table_name and d.marked_at < r.started_at",
        (resync_id,),
    )


def cancel_live(connection: Connection, resync_id: int) -> None:
    """Record that a live table still needs what it needed before; or more, if keys are left.

    Or chunks: then what waits for the table, in part contained in them, is applied without regard.
    """
    connection.execute(
        "update replication.source_table t"
        " set resync_reason = coalesce(t.resync_reason, r.reason_before,"
        " case when exists (select from replication.resync_key k where k.resync_id = r.resync_id"
        " and k.number is null) or exists (select from replication.resync_chunk c"
        " where c.resync_id = r.resync_id) then 'its resync was cancelled' end)"
        " from replication.resync r where r.resync_id = %s and t.source_id = r.source_id"
        " and t.schema_name = r.schema_name and t.table_name = r.table_name",
        (resync_id,),
    )


def set_chunk_key(connection: Connection, resync_id: int, key: Sequence[str]) -> None:
    """Record by which columns a table is copied in chunks, in their order."""
    connection.execute(
        "update replication.resync set key_columns = %s where resync_id = %s",
        (list(key), resync_id),
    )


def note_first(connection: Connection, resync_id: int, *, snapshot: str, lsn: Lsn) -> None:
    """Record under which snapshot the first chunk is, unless that stands there already."""
    connection.execute(
        "update replication.resync set first_snapshot = %s::pg_snapshot, first_lsn = %s"
        " where resync_id = %s and first_lsn is null",
        (snapshot, lsn, resync_id),
    )


def note_set_aside(connection: Connection, resync_id: int) -> None:
    """Record that changes were not applied as their rows will be copied: they never may be."""
    connection.execute(
        "update replication.resync set reason_before = 'its resync was cancelled'"
        " where resync_id = %s and reason_before is null",
        (resync_id,),
    )


def set_version(connection: Connection, resync_id: int, version: str | None) -> None:
    """Record what the copy is like."""
    connection.execute(
        "update replication.resync set table_version = %s where resync_id = %s",
        (version, resync_id),
    )


def restart_chunks(connection: Connection, resync_id: int) -> None:
    """Have all ranges of a table copied again; transactions that were applied stay known.

    What is left of resyncs of tables that were dropped goes as well: where DDL is applied, foreign
    keys do not cascade.
    """
    connection.execute(
        "update replication.resync set state = 'copying', last_key = null, row_count = 0,"
        " byte_count = 0, chunk_count = 0, table_version = null, first_snapshot = null,"
        " first_lsn = null, updated_at = clock_timestamp()"
        " where resync_id = %s",
        (resync_id,),
    )
    for table in ("resync_chunk", "resync_key"):
        connection.execute(
            f"delete from replication.{table} c where resync_id = %s or not exists"  # noqa: S608
            " (select from replication.resync r where r.resync_id = c.resync_id)",
            (resync_id,),
        )


def remove_chunks(connection: Connection, resync_id: int) -> None:
    """Forget all that chunks left: the table is copied as a whole, or not at all."""
    for table in ("resync_chunk", "resync_key", "resync_xid"):
        connection.execute(
            f"delete from replication.{table} where resync_id = %s",  # noqa: S608
            (resync_id,),
        )


def read_chunk_rows(connection: Connection, resync_id: int) -> Sequence[ChunkRow]:
    """Return the chunks that changes may still arrive for, in order."""
    with connection.cursor(row_factory=class_row(ChunkRow)) as cursor:
        return cursor.execute(
            "select number, is_range, low, high, snapshot::text, lsn"
            " from replication.resync_chunk where resync_id = %s order by number",
            (resync_id,),
        ).fetchall()


def add_chunk(
    connection: Connection,
    resync_id: int,
    *,
    limits: tuple[Sequence[str] | None, Sequence[str] | None] | None,
    snapshot: str,
    lsn: Lsn,
) -> int:
    """Record a chunk: a range of keys, or (no limits) keys that were read again; its number."""
    low, high = (None, None) if limits is None else limits
    ((number,),) = connection.execute(
        "insert into replication.resync_chunk (resync_id, number, is_range, low, high, snapshot,"
        " lsn) select %(id)s, coalesce(max(number), 0) + 1, %(is_range)s, %(low)s, %(high)s,"
        " %(snapshot)s::pg_snapshot, %(lsn)s from replication.resync_chunk"
        " where resync_id = %(id)s returning number",
        {
            "id": resync_id,
            "is_range": limits is not None,
            "low": None if low is None else list(low),
            "high": None if high is None else list(high),
            "snapshot": snapshot,
            "lsn": lsn,
        },
    ).fetchall()
    return int(number)


def pass_chunks(connection: Connection, resync_id: int, position: Position) -> None:
    """Forget the chunks that no change arrives for any more: replay has passed a position."""
    connection.execute(
        "with passed as (delete from replication.resync_chunk where resync_id = %(id)s"
        " and lsn <= %(lsn)s returning number)"
        " delete from replication.resync_key where resync_id = %(id)s"
        " and number in (select number from passed)",
        {"id": resync_id, "lsn": position},
    )


def read_last_chunk(connection: Connection, resync_id: int) -> Lsn | None:
    """Return the position that replay has to pass; None: it has passed all chunks."""
    ((lsn,),) = connection.execute(
        "select max(lsn) from replication.resync_chunk where resync_id = %s", (resync_id,)
    ).fetchall()
    return lsn if lsn is None else Lsn(lsn)


def count_left(connection: Connection, resync_id: int) -> tuple[int, int]:
    """Return how many chunks changes may still arrive for, and how many keys are to be read."""
    ((chunks, keys),) = connection.execute(
        "select (select count(*) from replication.resync_chunk where resync_id = %(id)s),"
        " (select count(*) from replication.resync_key where resync_id = %(id)s"
        "  and number is null)",
        {"id": resync_id},
    ).fetchall()
    return int(chunks), int(keys)


def read_keys(connection: Connection, resync_id: int) -> Sequence[tuple[KeyText, int | None]]:
    """Return the keys that are to be read again, and those that were, with their chunks."""
    rows = connection.execute(
        "select key, number from replication.resync_key where resync_id = %s", (resync_id,)
    )
    return [(tuple(key), number) for key, number in rows]


def read_rereads(connection: Connection, resync_id: int, limit: int) -> Sequence[KeyText]:
    """Return some keys that are to be read again, each once."""
    rows = connection.execute(
        "select distinct key from replication.resync_key"
        " where resync_id = %s and number is null limit %s",
        (resync_id, limit),
    )
    return [tuple(key) for (key,) in rows]


def add_rereads(connection: Connection, resync_id: int, keys: Collection[KeyText]) -> None:
    """Have rows read again by their keys."""
    if not keys:
        return
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into replication.resync_key (resync_id, key) values (%s, %s)",
            [(resync_id, list(key)) for key in keys],
        )


def set_reread(
    connection: Connection, resync_id: int, keys: Collection[KeyText], number: int
) -> None:
    """Record in which chunk keys were read again."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "update replication.resync_key set number = %s"
            " where resync_id = %s and number is null and key = %s",
            [(number, resync_id, list(key)) for key in keys],
        )
    connection.execute(
        "update replication.resync set reread_count = reread_count + %s where resync_id = %s",
        (len(keys), resync_id),
    )


def add_xids(connection: Connection, resync_id: int, xids: Collection[int]) -> None:
    """Record transactions whose changes are applied to the table."""
    if xids:
        connection.execute(
            "insert into replication.resync_xid (resync_id, xids) values (%s, %s)",
            (resync_id, list(xids)),
        )


def read_xids(connection: Connection, resync_id: int) -> frozenset[int]:
    """Return the transactions applied since the last chunk, by the 32 bits of the stream."""
    rows = connection.execute(
        "select xids from replication.resync_xid where resync_id = %s", (resync_id,)
    )
    return frozenset(xid for (xids,) in rows for xid in xids)


def remove_xids(connection: Connection, resync_id: int) -> None:
    """Forget them: a chunk contains them all, and so will later ones."""
    connection.execute("delete from replication.resync_xid where resync_id = %s", (resync_id,))
