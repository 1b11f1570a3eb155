"""Parts of a table that are applied in sessions beside the one that moves their shard.

A shard's changes and its progress commit together, but a session is one process of the server. So
other sessions may apply slices of a big table: a row belongs to the slice that a hash of its key
says. They commit, each with its row of ``replication.applied_slice``, just before the session that
moves the shard, which deletes these rows. Whoever finds some left applies all but those slices, up
to the very same segment.

No slice may come late: a session joins only while the transaction that moves the shard goes on, and
is waited for by the next one that moves it, before that one looks which slices are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from pgrepl.postgres.advisory_locks import pass_lock, share_lock, slice_lock
from pgrepl.postgres.connect import Connection

__all__ = [
    "AppliedSlice",
    "add_slice",
    "can_be_sliced",
    "current_transaction",
    "join_transaction",
    "read_slices",
    "remove_slices",
]

_Name = tuple[str, str]

# Of these types two values are equal when their texts are.
_CAN_BE_SLICED = """
select c.relkind = 'r'
   and not exists (select from pg_catalog.pg_inherits h where c.oid in (h.inhparent, h.inhrelid))
   and (select count(*) from pg_catalog.pg_index i
         where i.indrelid = c.oid and (i.indisunique or i.indisexclusion)) = 1
   and (select array_agg(a.attname order by a.attname) = %(key)s::name[]
               and bool_and(a.atttypid = any ('{int2,int4,int8,uuid,text,varchar}'::regtype[]))
               and coalesce(bool_and(l.collisdeterministic), true)
          from pg_catalog.pg_index i
          join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey)
          left join pg_catalog.pg_collation l on l.oid = a.attcollation
         where i.indrelid = c.oid and i.indisunique and i.indpred is null and i.indexprs is null
           and i.indnatts = i.indnkeyatts and i.indisvalid and i.indimmediate)
   and not exists (select from replication.resync r where r.source_id = %(source_id)s
                      and r.schema_name = %(schema)s and r.table_name = %(table)s)
  from pg_catalog.pg_class c
 where c.oid = %(target)s::pg_catalog.regclass
"""


@dataclass(frozen=True, slots=True)
class AppliedSlice:
    """A row of ``replication.applied_slice``."""

    schema: str
    table: str
    slice: int
    slice_count: int
    to_seq: int


def can_be_sliced(
    connection: Connection, source_id: int, name: _Name, target: str, key: Sequence[str]
) -> bool:
    """Whether no two rows of a table with other keys can stand in one another's way.

    ``target`` is the table as a statement names it.
    """
    row = connection.execute(
        _CAN_BE_SLICED,
        {
            "source_id": source_id,
            "schema": name[0],
            "table": name[1],
            "target": target,
            "key": sorted(key),
        },
    ).fetchone()
    return row is not None and row[0] is True


def read_slices(connection: Connection, source_id: int, shard: int) -> Sequence[AppliedSlice]:
    """Return the slices that are ahead of a shard; call it once the shard is moved.

    Sessions that were to apply more of them, for a task that has died, have ended then.
    """
    pass_lock(connection, slice_lock(source_id, shard))
    with connection.cursor(row_factory=class_row(AppliedSlice)) as cursor:
        return cursor.execute(
            "select schema_name as schema, table_name as table, slice, slice_count, to_seq"
            " from replication.applied_slice where source_id = %s and shard = %s",
            (source_id, shard),
        ).fetchall()


def current_transaction(connection: Connection) -> str:
    """Return the open transaction, which others join."""
    ((number,),) = connection.execute("select pg_current_xact_id()::text").fetchall()
    return str(number)


def join_transaction(connection: Connection, source_id: int, shard: int, transaction: str) -> bool:
    """Have whoever moves the shard next wait for the open transaction.

    False when the transaction that moves the shard now has ended: then it is too late.
    """
    share_lock(connection, slice_lock(source_id, shard))
    ((status,),) = connection.execute("select pg_xact_status(%s::xid8)", (transaction,)).fetchall()
    return bool(status == "in progress")


def add_slice(
    connection: Connection,
    source_id: int,
    shard: int,
    applied: AppliedSlice,
    *,
    from_seq: int,
) -> None:
    """Record a slice, in the transaction that applies it."""
    connection.execute(
        "insert into replication.applied_slice (source_id, shard, schema_name, table_name, slice,"
        " slice_count, from_seq, to_seq) values (%s, %s, %s, %s, %s, %s, %s, %s)",
        (
            *(source_id, shard, applied.schema, applied.table),
            *(applied.slice, applied.slice_count, from_seq, applied.to_seq),
        ),
    )


def remove_slices(connection: Connection, source_id: int, shard: int) -> None:
    """Forget the slices of a shard, in the transaction that moves it to where they are."""
    connection.execute(
        "delete from replication.applied_slice where source_id = %s and shard = %s",
        (source_id, shard),
    )
