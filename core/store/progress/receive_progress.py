"""How far the receiver of a source is: ``replication.receive_progress`` and ``table_bucket``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Composed, Literal

from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.foreign_names import fit_name

__all__ = [
    "Received",
    "forget_shutdown",
    "is_shut_down",
    "last_written",
    "put_into_bucket",
    "read_buckets",
    "read_received",
    "read_tables_in",
    "record_received",
    "record_shutdown",
]

_Name = tuple[str, str]


def read_received(connection: Connection, source_id: int) -> tuple[int, Lsn] | None:
    """Return the newest segment that was written and the position received; None before any."""
    row = connection.execute(
        "select last_seq, received_lsn from replication.receive_progress where source_id = %s",
        (source_id,),
    ).fetchone()
    return None if row is None else (int(row[0]), row[1])


def record_shutdown(connection: Connection, source_id: int) -> None:
    """Record that the source shut down, and that all of it is received."""
    connection.execute(
        "update replication.receive_progress set shutdown_lsn = received_lsn where source_id = %s",
        (source_id,),
    )


def forget_shutdown(connection: Connection, source_id: int) -> None:
    """Take that back: it was started since."""
    connection.execute(
        "update replication.receive_progress set shutdown_lsn = null"
        " where source_id = %s and shutdown_lsn is not null",
        (source_id,),
    )


def is_shut_down(connection: Connection, source_id: int) -> bool:
    """Whether the source is known to have ended where receiving stands."""
    ((is_known,),) = connection.execute(
        "select exists (select from replication.receive_progress"
        " where source_id = %s and shutdown_lsn = received_lsn)",
        (source_id,),
    ).fetchall()
    return bool(is_known)


def last_written(connection: Connection, source_id: int) -> int:
    """Return the newest segment that the receiver ever wrote."""
    received = read_received(connection, source_id)
    return 0 if received is None else received[0]


@dataclass(slots=True)
class Received:
    """How much a transaction of the spool brings, to be counted when it commits."""

    transaction_count: int = 0
    change_count: int = 0
    #: Of these, the ones with DDL or TRUNCATE.
    serial_transaction_count: int = 0
    serial_change_count: int = 0


def record_received(
    source_id: int, *, seq: int, position: Position, commit_at: int | None, received: Received
) -> Composed:
    """Return the statement that records a position; the time is in microseconds since 2000."""
    return SQL(
        "insert into replication.receive_progress as p (source_id, last_seq, received_lsn,"
        " commit_at, transaction_count, change_count, serial_transaction_count,"
        " serial_change_count) values ({source}, {seq}, {lsn},"
        " '2000-01-01 00:00+00'::timestamptz + {at} * interval '1 microsecond',"
        " {transactions}, {changes}, {serial_transactions}, {serial_changes})"
        " on conflict (source_id) do update set last_seq = excluded.last_seq,"
        " received_lsn = excluded.received_lsn,"
        " commit_at = coalesce(excluded.commit_at, p.commit_at), updated_at = now(),"
        " transaction_count = p.transaction_count + excluded.transaction_count,"
        " change_count = p.change_count + excluded.change_count,"
        " serial_transaction_count = p.serial_transaction_count"
        " + excluded.serial_transaction_count,"
        " serial_change_count = p.serial_change_count + excluded.serial_change_count;"
    ).format(
        source=Literal(source_id),
        seq=Literal(seq),
        lsn=Literal(position),
        at=Literal(commit_at),
        transactions=Literal(received.transaction_count),
        changes=Literal(received.change_count),
        serial_transactions=Literal(received.serial_transaction_count),
        serial_changes=Literal(received.serial_change_count),
    )


def read_buckets(connection: Connection, source_id: int) -> Mapping[_Name, int]:
    """Return the buckets that tables of a source were put into."""
    rows = connection.execute(
        "select schema_name, table_name, bucket from replication.table_bucket where source_id = %s",
        (source_id,),
    )
    return {(schema, table): bucket for schema, table, bucket in rows}


def read_tables_in(
    connection: Connection, source_id: int, buckets: Collection[int]
) -> Sequence[_Name]:
    """Return tables of a source that were put into some buckets."""
    rows = connection.execute(
        "select schema_name, table_name from replication.table_bucket"
        " where source_id = %s and bucket = any (%s)",
        (source_id, list(buckets)),
    )
    return [(schema, table) for schema, table in rows]


def put_into_bucket(connection: Connection, source_id: int, name: _Name, bucket: int) -> None:
    """Record the bucket of a table."""
    connection.execute(
        "insert into replication.table_bucket (source_id, schema_name, table_name, bucket)"
        " values (%s, %s, %s, %s) on conflict (source_id, schema_name, table_name)"
        " do update set bucket = excluded.bucket",
        (source_id, *(fit_name(connection, part) for part in name), bucket),
    )
