"""The receiver's session on the target: spool rows, progress and origin, in one transaction.

``pg_replication_origin_xact_setup`` survives a rollback: a position set up for a transaction that
failed would be stored by the next one that commits in the session. So it is sent last, together
with COMMIT, and after any error the session is closed and never used again.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from psycopg import errors
from psycopg.sql import SQL, Literal

from pgrepl.config import SourceConfig
from pgrepl.dsn import Endpoint
from pgrepl.errors import AlreadyRunning, TargetError
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.migrations import migrate
from pgrepl.postgres import Connection, connect
from pgrepl.receiver.batch import Batch
from pgrepl.receiver.predecessor import is_alive
from pgrepl.receiver.routes import TableName
from pgrepl.source_state import SourceRow, find_source
from pgrepl.spool import CHANNEL, MORE, SERIAL_BUCKET, SpoolPart
from pgrepl.sqlstate import translated
from pgrepl.terminal import command

__all__ = ["LiveReceiver", "Progress", "SpoolSession", "open_spool"]

_COPY = """
copy replication.raw_messages
    (source_id, seq, bucket, part, kind, first_lsn, last_lsn, first_commit_at, last_commit_at,
     change_count, is_last, payload_bytes, payload)
from stdin (format binary)
"""
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_KINDS = {"parallel": b"parallel", "serial": b"serial"}

# A row's field count; then each field's length before the field, the payload's without it.
_HEAD = struct.Struct("!hiiiqihii")
_TAIL = struct.Struct("!iQiQiqiqiii?")
_SIZES = struct.Struct("!iii")
_NULL = struct.Struct("!ii")

#: libpq buffers what it is given at once; big lines are given in pieces.
_PIECE_BYTES = 1 << 20


class LiveReceiver(AlreadyRunning):
    """Another receiver runs, and it is not just dying."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where receiving stands, as the target recorded it."""

    last_seq: int
    received_lsn: Lsn


class SpoolSession:
    """An open session that holds the origin; use it from one thread at a time."""

    def __init__(self, connection: Connection, endpoint: Endpoint, source: SourceRow) -> None:
        """Take over a connection in autocommit mode whose session has the origin set up."""
        self._connection = connection
        self._endpoint = endpoint
        self.is_in_transaction = False
        self.source = source
        #: Whether a payload is stored in as many bytes as are sent.
        self._is_sized = False

    def read_origin(self) -> Lsn | None:
        """Return the position of the origin, flushed to disk; None when it has none."""
        with translated(self._endpoint, "cannot read the origin"):
            ((lsn,),) = self._connection.execute(
                "select pg_replication_origin_progress(%s, true)", (self.source.slot,)
            ).fetchall()
        return None if lsn is None else Lsn(lsn)

    def read_progress(self) -> Progress | None:
        """Return what earlier receivers recorded; None before the first."""
        with translated(self._endpoint, "cannot read the progress"):
            row = self._connection.execute(
                "select last_seq, received_lsn from replication.receive_progress"
                " where source_id = %s",
                (self.source.source_id,),
            ).fetchone()
        return None if row is None else Progress(*row)

    def read_buckets(self) -> Mapping[TableName, int]:
        """Return the buckets that tables were put into."""
        with translated(self._endpoint, "cannot read the buckets"):
            rows = self._connection.execute(
                "select schema_name, table_name, bucket from replication.table_bucket"
                " where source_id = %s",
                (self.source.source_id,),
            ).fetchall()
        return {(schema, table): bucket for schema, table, bucket in rows}

    def read_spool_bytes(self) -> int:
        """Return what the source's rows take up in the spool, compressed as they are."""
        with translated(self._endpoint, "cannot read the size of the spool"):
            ((size,),) = self._connection.execute(
                "select coalesce(sum(pg_column_size(payload)), 0) from replication.raw_messages"
                " where source_id = %s",
                (self.source.source_id,),
            ).fetchall()
        return int(size)

    def read_resyncs(self) -> Sequence[TableName]:
        """Return the tables that wait for a resync."""
        with translated(self._endpoint, "cannot read the tables"):
            # The source's encoding was for its rows; psycopg has no text for SQL_ASCII.
            self._connection.execute("set client_encoding = 'UTF8'")
            return self._connection.execute(
                "select schema_name, table_name from replication.source_table"
                " where source_id = %s and resync_reason is not null order by 1, 2",
                (self.source.source_id,),
            ).fetchall()

    def use_encoding(self, encoding: str) -> None:
        """Send text in the encoding of the source: the target converts it to its own."""
        with translated(self._endpoint, "cannot take the source's encoding"):
            ((self._is_sized,),) = self._connection.execute(
                "select set_config('client_encoding', %s, false) = getdatabaseencoding()",
                (encoding,),
            ).fetchall()

    def write(self, batch: Batch, *, has_more: bool) -> None:
        """Write a batch into the open transaction, and commit when it has a position.

        ``has_more`` tells those who are notified that more is about to follow.
        """
        with translated(self._endpoint, "cannot write to the spool"):
            if not self.is_in_transaction:
                self._connection.execute("begin")
                self.is_in_transaction = True
            if batch.turns_serial is not None:
                self._turn_serial(batch.turns_serial)
            if batch.parts:
                self._copy(batch.parts)
            self._note(batch)
            if batch.position is None:
                reach("receiver.after_part")
                return
            reach("receiver.before_commit")
            self._commit(batch, batch.position, self.source.name + MORE * has_more)
            self.is_in_transaction = False
            reach("receiver.after_commit_before_feedback")

    def abandon(self) -> None:
        """Break the connection, also from another thread while this one waits for the server."""
        with suppress(OSError, errors.Error):
            # A duplicate is shut down: the descriptor itself stays libpq's.
            duplicate = socket.socket(fileno=os.dup(self._connection.pgconn.socket))
            with duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the session; what is not committed is gone."""
        self._connection.close()

    def _copy(self, parts: Sequence[SpoolPart]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for piece in _encode(self.source.source_id, parts, is_sized=self._is_sized):
                copy.write(piece)

    def _turn_serial(self, seq: int) -> None:
        self._connection.execute(
            "update replication.raw_messages set kind = 'serial', bucket = %s"
            " where source_id = %s and seq = %s",
            (SERIAL_BUCKET, self.source.source_id, seq),
        )

    def _note(self, batch: Batch) -> None:
        """Record losses and buckets with the changes they belong to."""
        source_id = self.source.source_id
        for (schema, table), reason in batch.losses.items():
            # A table that no copy knows yet gets a row, as one whose copy is not whole.
            self._connection.execute(
                "insert into replication.source_table as t"
                " (source_id, schema_name, table_name, resync_reason) values (%s, %s, %s, %s)"
                " on conflict (source_id, schema_name, table_name) do update"
                " set resync_reason = coalesce(t.resync_reason, excluded.resync_reason)",
                (source_id, schema, table, reason),
            )
        for (schema, table), bucket in batch.buckets.items():
            self._connection.execute(
                "insert into replication.table_bucket (source_id, schema_name, table_name, bucket)"
                " values (%s, %s, %s, %s) on conflict (source_id, schema_name, table_name)"
                " do update set bucket = excluded.bucket",
                (source_id, schema, table, bucket),
            )

    def _commit(self, batch: Batch, position: Lsn, news: str) -> None:
        """Record the position and commit, in one round trip."""
        notify = SQL("select pg_notify({}, {});").format(Literal(CHANNEL), Literal(news))
        statement = SQL(
            "insert into replication.receive_progress as p"
            " (source_id, last_seq, received_lsn, commit_at) values ({source}, {seq}, {lsn},"
            " '2000-01-01 00:00+00'::timestamptz + {at} * interval '1 microsecond')"
            " on conflict (source_id) do update set last_seq = excluded.last_seq,"
            " received_lsn = excluded.received_lsn,"
            " commit_at = coalesce(excluded.commit_at, p.commit_at), updated_at = now();"
            "{notify}"
            "select pg_replication_origin_xact_setup({lsn}, clock_timestamp());"
            "commit"
        ).format(
            source=Literal(self.source.source_id),
            seq=Literal(batch.last_seq),
            lsn=Literal(position),
            at=Literal(batch.commit_at),
            notify=notify if batch.parts else SQL(""),
        )
        self._connection.execute(statement)


def open_spool(config: SourceConfig, target: Endpoint) -> SpoolSession:
    """Open the target for receiving; only one session at a time can.

    Raises
    ------
    AlreadyRunning
        when another receiver, or one that is just dying, holds the origin.

    """
    connection = connect(target, "receive")
    try:
        migrate(connection, target)
        with translated(target, "cannot prepare the session"):
            connection.execute(
                # Nothing is confirmed to the source before it is on disk here. A stricter setting
                # than on is the owner's choice and stays. Newer servers may limit transactions.
                "select set_config(name, case name when 'synchronous_commit' then 'on' else '0'"
                " end, false) from pg_settings"
                " where name = 'synchronous_commit' and setting = 'off'"
                " or name in ('lock_timeout', 'transaction_timeout')"
            )
        source = _checked_source(find_source(connection, config.name), config)
        _set_up_origin(connection, target, source.slot)
    except BaseException:
        connection.close()
        raise
    return SpoolSession(connection, target, source)


def _checked_source(source: SourceRow | None, config: SourceConfig) -> SourceRow:
    if source is None or source.state != "streaming":
        state = "was never copied" if source is None else f'is in state "{source.state}"'
        raise TargetError(
            f'source "{config.name}" {state}, so there is nothing to stream onto',
            hint=f"Run: {command('basebackup', config.name)}",
        )
    if source.slot != config.slot:
        raise TargetError(
            f'source "{config.name}" was copied with slot "{source.slot}",'
            f' the configuration says "{config.slot}"',
            hint=f'Set slot = "{source.slot}" in [sources.{config.name}].',
        )
    return source


def _set_up_origin(connection: Connection, target: Endpoint, origin: str) -> None:
    """Take the origin: whoever has it is the only receiver."""
    with translated(target, f'cannot use replication origin "{origin}"'):
        try:
            connection.execute("select pg_replication_origin_session_setup(%s)", (origin,))
        except errors.ObjectInUse as exc:
            is_certain = is_alive(connection, exc.diag.message_primary or "")
            raise (LiveReceiver if is_certain else AlreadyRunning)(
                f'another receiver has replication origin "{origin}" on the target',
                hint="Only one receiver per source can run; pg_stat_activity shows it as"
                " pgrepl-receive.",
            ) from exc
        except errors.UndefinedObject as exc:
            raise TargetError(
                f'replication origin "{origin}" is gone from the target',
                hint="Without it nobody knows what was received; copy the source again with"
                " pgrepl basebackup SOURCE --restart.",
            ) from exc


def _encode(source_id: int, parts: Sequence[SpoolPart], *, is_sized: bool) -> Iterator[bytes]:
    """Make COPY's binary format: nothing in it needs escaping."""
    yield _SIGNATURE
    for part in parts:
        kind = _KINDS[part.kind]
        head = _HEAD.pack(13, 4, source_id, 8, part.seq, 2, part.bucket, 4, part.part)
        size = sum(map(len, part.payload))
        tail = _TAIL.pack(
            *(8, part.first_lsn, 8, part.last_lsn),
            *(8, part.first_commit_at, 8, part.last_commit_at),
            *(4, part.change_count, 1, part.is_last),
        )
        sizes = _SIZES.pack(4, size, size) if is_sized else _NULL.pack(-1, size)
        yield b"".join((head, len(kind).to_bytes(4, "big"), kind, tail, sizes))
        for piece in part.payload:
            for start in range(0, len(piece), _PIECE_BYTES):
                yield piece[start : start + _PIECE_BYTES]
    yield _TRAILER
