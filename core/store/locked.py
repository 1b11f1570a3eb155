"""Parked tables that only wait for a lock: rows of ``parked_table`` of kind ``locked``.

Replay writes them when another session of the target locks a table, and releases them by itself,
a bounded step at a time, so that nobody waits long for the row of ``parked_table``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier

from pgrepl.postgres.connect import Connection
from pgrepl.postgres.queries import load_query

__all__ = [
    "LOCK_MODES",
    "Blocker",
    "LockedTable",
    "find_blockers",
    "find_lock_reason",
    "find_locked",
    "find_step_end",
    "leave_to_group",
    "lock_target_table",
    "note_blocked",
    "read_locked_names",
    "remove_step",
    "set_aside",
]

LOCK_MODES = (SQL("row exclusive"), SQL("exclusive"), SQL("access exclusive"))
"""What changes of rows take, what waits for all who change rows, and what TRUNCATE takes."""

#: How many messages are looked at for a step.
_MESSAGES = 1000

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LockedTable:
    """A table whose changes wait for a lock."""

    source_id: int
    source: str
    schema: str
    table: str
    #: None: it has no place on the target any more.
    target_schema: str | None
    target_name: str
    reason: str
    #: DDL that waits with it, if any does.
    group_id: int | None
    #: For how long it waits.
    seconds: float

    @property
    def name(self) -> _Name:
        """Schema and name on the source."""
        return self.schema, self.table


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session that holds a lock which another one waits for."""

    pid: int
    role: str | None
    application: str | None
    state: str | None
    since: datetime | None
    is_autovacuum: bool

    def __str__(self) -> str:
        """Say who it is, without its statement, which may hold values."""
        if not self.pid:
            return "a prepared transaction"
        words = [self.application or "", f"role {self.role}" if self.role else "", self.state or ""]
        if self.since is not None:
            words.append(f"in a transaction since {self.since:%Y-%m-%d %H:%M:%S%z}")
        told = ", ".join(word for word in words if word)
        return f"process {self.pid} ({told})" if told else f"process {self.pid}"


def set_aside(connection: Connection, source_id: int, name: _Name, reason: str) -> None:
    """Park a table until a lock is free."""
    connection.execute(
        "insert into replication.parked_table (source_id, schema_name, table_name, kind, reason)"
        " values (%s, %s, %s, 'locked', %s)",
        (source_id, *name, reason),
    )


def find_locked(connection: Connection, source_ids: Collection[int]) -> Sequence[LockedTable]:
    """Return the tables of sources that wait for a lock, those first that wait longest."""
    with connection.cursor(row_factory=class_row(LockedTable)) as cursor:
        return cursor.execute(
            load_query("pgrepl.store", "locked_tables"), (list(source_ids),)
        ).fetchall()


def read_locked_names(connection: Connection, source_id: int) -> Sequence[tuple[_Name, str]]:
    """Return the tables of a source that wait for a lock, and whose it is."""
    return [(table.name, table.reason) for table in find_locked(connection, [source_id])]


def find_lock_reason(connection: Connection, source_id: int, name: _Name) -> str | None:
    """Return what is said of the lock that changes of a table wait for; None: they do not."""
    row = connection.execute(
        "select reason from replication.parked_table where source_id = %s"
        " and schema_name = %s and table_name = %s and kind = 'locked'",
        (source_id, *name),
    ).fetchone()
    return None if row is None else row[0]


def find_blockers(connection: Connection, pid: int) -> Sequence[Blocker]:
    """Return who holds the lock that a session of the target waits for at this moment."""
    with connection.cursor(row_factory=class_row(Blocker)) as cursor:
        return cursor.execute(load_query("pgrepl.store", "lock_blockers"), (pid,)).fetchall()


def note_blocked(connection: Connection, table: LockedTable, reason: str) -> None:
    """Write down who holds the lock on a table."""
    connection.execute(
        "update replication.parked_table set reason = %s where source_id = %s"
        " and schema_name = %s and table_name = %s and kind = 'locked'",
        (reason, table.source_id, *table.name),
    )


def leave_to_group(connection: Connection, table: LockedTable, reason: str) -> None:
    """Leave a table whose lock is free to the DDL that waits with it."""
    connection.execute(
        "update replication.parked_table set kind = 'ddl', reason = %s where source_id = %s"
        " and schema_name = %s and table_name = %s and kind = 'locked'",
        (reason, table.source_id, *table.name),
    )


def lock_target_table(connection: Connection, table: LockedTable, mode: int) -> None:
    """Take one of the locks in ``LOCK_MODES``, if the target has the table."""
    if table.target_schema is None:
        return
    place = Identifier(table.target_schema, table.target_name)
    ((is_there,),) = connection.execute(
        "select to_regclass(%s) is not null", (place.as_string(connection),)
    ).fetchall()
    if is_there:
        connection.execute(SQL("lock table only {} in {} mode").format(place, LOCK_MODES[mode]))


def find_step_end(
    connection: Connection, source_id: int, name: _Name, limit_bytes: int
) -> int | None:
    """Return the segment up to which about that much waits for a table; None: nothing waits."""
    ((seq,),) = connection.execute(
        "select max(seq) from (select seq, sum(size) over (order by seq, part, piece) - size"
        " as before from (select seq, part, piece, octet_length(payload) as size"
        " from replication.parked_message"
        " where source_id = %s and schema_name = %s and table_name = %s"
        " order by seq, part, piece limit %s) h) w where before < %s",
        (source_id, *name, _MESSAGES, limit_bytes),
    ).fetchall()
    return None if seq is None else int(seq)


def remove_step(connection: Connection, source_id: int, name: _Name, to_seq: int) -> bool:
    """Remove what is applied of what waited for a table; whether more waits."""
    connection.execute(
        "delete from replication.parked_message"
        " where source_id = %s and schema_name = %s and table_name = %s and seq <= %s",
        (source_id, *name, to_seq),
    )
    ((is_more,),) = connection.execute(
        "select exists (select from replication.parked_message"
        " where source_id = %s and schema_name = %s and table_name = %s)",
        (source_id, *name),
    ).fetchall()
    return bool(is_more)
