"""DDL that waits with its tables: rows of ``replication.ddl_pending`` that have a group.

The parked tables of a group and its statements are worked off together, in the order in which they
stood in the spool. A statement that concerns no table is a group without tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.encodings import fit_text
from pgrepl.postgres.foreign_names import fit_name
from pgrepl.postgres.queries import load_query
from pgrepl.postgres.server_cursor import closed_at_the_end

__all__ = [
    "ParkedGroup",
    "WaitingDdl",
    "count_waiting",
    "decide_to_retry",
    "end_parking",
    "find_decided",
    "find_group",
    "keep_ddl",
    "note_tried",
    "park_for_ddl",
    "read_group_ddl",
    "stream_group",
]

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingDdl:
    """The rows of the log that tell a statement, and where in the spool they stood."""

    log_id: int
    seq: int
    part: int
    piece: int
    format: str
    encoding: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class ParkedGroup:
    """Tables that are worked off together."""

    #: None: one table, for which no DDL waits.
    group_id: int | None
    tables: Sequence[_Name]


def park_for_ddl(
    connection: Connection, source_id: int, names: Collection[_Name], log_id: int, reason: str
) -> Sequence[_Name]:
    """Park tables that a statement concerns, and return those that were not parked before.

    They make one group with all who wait with them, which is called by the statement's number.
    """
    # No table of the target has a name that its encoding lacks.
    names = [(fit_name(connection, schema), fit_name(connection, name)) for schema, name in names]
    reason = fit_text(connection, reason)
    parked = connection.execute(
        load_query("pgrepl.store", "park_for_ddl"),
        {
            "source": source_id,
            "schemas": [schema for schema, _ in names],
            "names": [name for _, name in names],
            "group": log_id,
            "reason": reason,
        },
    ).fetchall()
    merged = connection.execute(
        "select array_agg(distinct group_id) from replication.parked_table"
        " join unnest(%s::text[], %s::text[]) as w (schema_name, table_name)"
        " using (schema_name, table_name) where source_id = %s and group_id is not null",
        ([schema for schema, _ in names], [name for _, name in names], source_id),
    ).fetchall()[0][0]
    connection.execute(
        "update replication.parked_table p set group_id = %(group)s where source_id = %(source)s"
        " and (group_id = any (%(merged)s) or exists (select from unnest(%(schemas)s::text[],"
        " %(names)s::text[]) as w (s, n) where (w.s, w.n) = (p.schema_name, p.table_name)))",
        {
            "group": log_id,
            "source": source_id,
            "merged": merged or [],
            "schemas": [schema for schema, _ in names],
            "names": [name for _, name in names],
        },
    )
    connection.execute(
        "update replication.ddl_pending set group_id = %s"
        " where source_id = %s and group_id = any (%s)",
        (log_id, source_id, merged or []),
    )
    return [(schema, name) for schema, name in parked]


def keep_ddl(connection: Connection, source_id: int, statement: WaitingDdl) -> None:
    """Keep the log's rows of a statement that waits, whose group is called by its number."""
    connection.execute(
        "update replication.ddl_pending set group_id = log_id, seq = %s, part = %s, piece = %s,"
        " format = %s, encoding = %s, payload = %b where source_id = %s and log_id = %s",
        (
            *(statement.seq, statement.part, statement.piece),
            *(statement.format, statement.encoding, statement.payload),
            *(source_id, statement.log_id),
        ),
    )


def decide_to_retry(connection: Connection, source_id: int, log_id: int) -> None:
    """Have a statement tried again, and whoever waits with it, without asking a person."""
    connection.execute(
        "update replication.ddl_pending set decision = 'retry', decided_by = 'pgrepl',"
        " decided_at = clock_timestamp() where source_id = %s and log_id = %s",
        (source_id, log_id),
    )


def find_group(connection: Connection, source_id: int, name: _Name) -> ParkedGroup:
    """Return the tables that a parked table is worked off with, itself among them."""
    rows = connection.execute(
        "select p.group_id, p.schema_name::text, p.table_name::text"
        " from replication.parked_table t join replication.parked_table p"
        " on p.source_id = t.source_id and (p.group_id = t.group_id"
        " or (p.schema_name, p.table_name) = (t.schema_name, t.table_name))"
        " where t.source_id = %s and t.schema_name = %s and t.table_name = %s order by 2, 3",
        (source_id, *name),
    ).fetchall()
    group_id = rows[0][0] if rows else None
    return ParkedGroup(group_id, [(schema, table) for _, schema, table in rows])


def find_decided(connection: Connection, source_id: int) -> Sequence[ParkedGroup]:
    """Return the groups with a statement about which a person decided since it was last tried.

    Not those with a table that waits for a lock.
    """
    rows = connection.execute(
        "select d.group_id, array(select array[p.schema_name::text, p.table_name::text]"
        " from replication.parked_table p where (p.source_id, p.group_id)"
        " = (d.source_id, d.group_id) order by 1)"
        " from replication.ddl_pending d where d.source_id = %s and d.group_id is not null"
        " and d.decided_at > coalesce(d.tried_at, '-infinity')"
        " and not exists (select from replication.parked_table p where (p.source_id, p.group_id)"
        " = (d.source_id, d.group_id) and p.kind = 'locked')"
        " group by d.source_id, d.group_id order by min(d.seq)",
        (source_id,),
    ).fetchall()
    return [ParkedGroup(group, [(schema, name) for schema, name in names]) for group, names in rows]


def note_tried(connection: Connection, source_id: int, group_id: int) -> None:
    """Write down that a group was worked off in vain."""
    connection.execute(
        "update replication.ddl_pending set tried_at = clock_timestamp()"
        " where source_id = %s and group_id = %s",
        (source_id, group_id),
    )


def stream_group(
    connection: Connection, source_id: int, group: ParkedGroup
) -> Iterator[tuple[str, str, bytes, int | None]]:
    """Return what waits for a group, in order: format, encoding, payload, number of changes.

    The number is None where it is DDL.
    """
    waiting = connection.cursor("pgrepl_parked", withhold=True, binary=True)
    with closed_at_the_end(waiting) as cursor:
        cursor.itersize = 1
        cursor.execute(
            load_query("pgrepl.store", "parked_group"),
            {
                "source": source_id,
                "group": group.group_id,
                "schemas": [schema for schema, _ in group.tables],
                "names": [name for _, name in group.tables],
            },
        )
        yield from cursor


def read_group_ddl(
    connection: Connection, source_id: int, group_id: int | None
) -> Sequence[tuple[str, str, bytes]]:
    """Return the DDL that waits in a group, in order: format, encoding, payload."""
    return connection.execute(
        "select format, encoding, payload from replication.ddl_pending"
        " where source_id = %s and group_id = %s order by seq, part, piece",
        (source_id, group_id),
    ).fetchall()


def end_parking(connection: Connection, source_id: int, name: _Name) -> None:
    """Forget what waits for a table that is dropped, and DDL that waits for no other table."""
    group = find_group(connection, source_id, name)
    for table in ("parked_message", "parked_table"):
        connection.execute(
            f"delete from replication.{table}"  # noqa: S608  two names of ours
            " where source_id = %s and schema_name = %s and table_name = %s",
            (source_id, *name),
        )
    if group.group_id is None or set(group.tables) != {name}:
        return
    connection.execute(
        "with gone as (delete from replication.ddl_pending"
        " where source_id = %s and group_id = %s returning *)"
        " insert into replication.ddl_history (source_id, log_id, commit_lsn, commit_at, outcome,"
        " reason, tag, role, original, remapped) select source_id, log_id, commit_lsn, commit_at,"
        " 'skipped', 'its tables were dropped before it could be applied', tag, role, original,"
        " remapped from gone order by seq, part, piece",
        (source_id, group.group_id),
    )


def count_waiting(connection: Connection, source_id: int) -> int:
    """Return how many statements wait for a person."""
    ((count,),) = connection.execute(
        "select count(*) from replication.ddl_pending where source_id = %s and decision is null",
        (source_id,),
    ).fetchall()
    return int(count)
