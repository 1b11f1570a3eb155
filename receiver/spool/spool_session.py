"""The receiver's session on the target: spool rows, progress and origin, in one transaction.

``pg_replication_origin_xact_setup`` survives a rollback: a position set up for a transaction that
failed would be stored by the next one that commits in the session. So it is sent last, together
with COMMIT, and after any error the session is closed and never used again.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from psycopg import errors
from psycopg.sql import SQL, Literal

from pgrepl.config.dsn import Endpoint
from pgrepl.config.naming import TableSelection
from pgrepl.failpoint import reach
from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.postgres.connect import Connection
from pgrepl.postgres.durability import confirmed
from pgrepl.postgres.sqlstate import translated
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.spool.batch import Batch
from pgrepl.receiver.spool.copy_rows import COLUMNS, encode_rows
from pgrepl.store.progress.receive_progress import (
    Received,
    put_into_bucket,
    read_buckets,
    read_received,
    record_received,
)
from pgrepl.store.rules import mark_unfiltered
from pgrepl.store.sources import (
    SourceRow,
    follow_timeline,
    record_version,
    take_on_server,
)
from pgrepl.store.spool.spool_format import CHANNEL, MORE, SpoolPart
from pgrepl.store.spool.spool_rows import copy_into_spool, measure_spool, turn_serial
from pgrepl.store.streams import (
    Partition,
    add_partition,
    is_parked_record,
    list_parked_places,
    move_partitions,
    park_records,
    read_partitions,
    record_position,
    set_parked_reason,
    settle_parked_records,
)
from pgrepl.store.tables.source_tables import read_source_oids
from pgrepl.store.tables.table_marks import add_lost_table, read_marked
from pgrepl.store.tables.unselected import find_unselected
from pgrepl.terminal import printable

__all__ = ["Progress", "SpoolSession"]

logger = logging.getLogger(__name__)

_COPY = copy_into_spool(COLUMNS)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where receiving stands, as the target recorded it."""

    last_seq: int
    received_lsn: Lsn


class SpoolSession:
    """An open session that holds the origin; use it from one thread at a time."""

    def __init__(
        self,
        connection: Connection,
        endpoint: Endpoint,
        source: SourceRow,
        *,
        selection: TableSelection | None = None,
        holds_origin: bool = True,
        beside: Connection | None = None,
    ) -> None:
        """Take over a connection in autocommit mode whose session has the origin set up.

        ``selection``: what is received; None: all that there is. ``beside``: a session that does
        not have the origin, for what there is to note before the first rows; taken over as well.
        """
        self._connection = connection
        self.beside = beside
        self._selection = selection
        self._holds_origin = holds_origin
        self._endpoint = self.endpoint = endpoint
        self.is_in_transaction = False
        self.source = source
        self._format_name = ""
        self._encoding = ""
        #: What the open transaction brings.
        self._received = Received()
        self._written_bytes = 0

    def read_origin(self) -> Lsn | None:
        """Return the position of the origin, flushed to disk; None when it has none."""
        with translated(self._endpoint, "cannot read the origin"):
            ((lsn,),) = self._connection.execute(
                "select pg_replication_origin_progress(%s, true)", (self.source.slot,)
            ).fetchall()
        return None if lsn is None else Lsn(lsn)

    def follow_timeline(self, timeline: int, end: Lsn) -> None:
        """Record that the source failed over: its last timeline ended there."""
        source = self.source
        with translated(self._endpoint, "cannot record the timeline"):
            follow_timeline(self._connection, source.source_id, timeline, end)
        self.source = replace(source, timeline=timeline)

    def read_progress(self) -> Progress | None:
        """Return what earlier receivers recorded; None before the first."""
        with translated(self._endpoint, "cannot read the progress"):
            received = read_received(self._connection, self.source.source_id)
        return None if received is None else Progress(*received)

    def read_partitions(self) -> Sequence[Partition]:
        """Return where the partitions of a source of records are."""
        with translated(self._endpoint, "cannot read the offsets"):
            return read_partitions(self._connection, self.source.source_id)

    def add_partitions(self, partitions: Sequence[Partition]) -> None:
        """Record partitions before anything of them is received."""
        with translated(self._endpoint, "cannot write the offsets"):
            for partition in partitions:
                add_partition(self._connection, self.source.source_id, partition)

    def read_parked_places(
        self, after: tuple[str, int, int], limit: int
    ) -> Sequence[tuple[str, int, int]]:
        """Return topic, partition and offset of parked records that follow one."""
        with translated(self._endpoint, "cannot read the parked records"):
            return list_parked_places(self._connection, self.source.source_id, after, limit)

    def is_parked(self, place: tuple[str, int], offset: int) -> bool:
        """Whether a record is parked."""
        with translated(self._endpoint, "cannot read the parked records"):
            return is_parked_record(self._connection, self.source.source_id, (*place, offset))

    def note_parked(self, place: tuple[str, int, int], reason: str) -> None:
        """Record why a parked record still cannot be received."""
        with translated(self._endpoint, "cannot write the parked records"):
            set_parked_reason(self._connection, self.source.source_id, place, printable(reason))

    def read_buckets(self) -> Mapping[TableName, int]:
        """Return the buckets that tables were put into."""
        with translated(self._endpoint, "cannot read the buckets"):
            return read_buckets(self._connection, self.source.source_id)

    def read_source_oids(self) -> Mapping[TableName, int]:
        """Return which relations of the source the replicated tables are, as far as known."""
        with translated(self._endpoint, "cannot read the tables"):
            return read_source_oids(self._connection, self.source.source_id)

    def read_spool_bytes(self) -> int:
        """Return what the source's rows take up in the spool, compressed as they are."""
        with translated(self._endpoint, "cannot read the size of the spool"):
            return measure_spool(self._connection, self.source.source_id)

    def read_resyncs(self) -> Sequence[TableName]:
        """Return the tables that wait for a resync; not those that are passed over anyway."""
        connection, source_id = self._connection, self.source.source_id
        with translated(self._endpoint, "cannot read the tables"):
            marked = read_marked(connection, source_id)
            if not marked or self._selection is None:
                return marked
            passed_over = find_unselected(connection, source_id, self._selection)
        return [name for name in marked if name not in passed_over]

    def set_format(self, name: str, encoding: str) -> None:
        """Say in every row from now on how its payload is read."""
        self._format_name = name
        self._encoding = encoding

    def write(self, batch: Batch, *, has_more: bool) -> None:
        """Write a batch into the open transaction, and commit when it has a position.

        ``has_more`` tells those who are notified that more is about to follow.
        """
        with translated(self._endpoint, "cannot write to the spool"):
            if not self.is_in_transaction:
                self._connection.execute("begin")
                self.is_in_transaction = True
            if batch.turns_serial is not None:
                turn_serial(self._connection, self.source.source_id, batch.turns_serial)
            if batch.parts:
                self._copy(batch.parts)
            self._note(batch)
            self._count(batch)
            if batch.position is None:
                reach("receiver.after_part")
                return
            reach("receiver.before_commit")
            news = f"{self.source.name}{MORE} {self._written_bytes}"
            self._commit(batch, batch.position, news if has_more else self.source.name)
            self.is_in_transaction = False
            self._received = Received()
            self._written_bytes = 0
            reach("receiver.after_commit_before_feedback")

    def take_on(self, batch: Batch, system_identifier: int, timeline: int) -> None:
        """Go on at the position of a batch with another server, in one transaction."""
        with translated(self._endpoint, "cannot record the server"):
            self._connection.execute("begin")
            self.is_in_transaction = True
            take_on_server(self._connection, self.source.source_id, system_identifier, timeline)
        self.write(batch, has_more=False)

    def record_version(self, version: int) -> None:
        """Record which version the server has."""
        with translated(self._endpoint, "cannot record the version"):
            record_version(self._connection, self.source.source_id, version)

    def abandon(self) -> None:
        """Break the connection, also from another thread while this one waits for the server."""
        with suppress(OSError, errors.Error):
            # A duplicate is shut down: the descriptor itself stays libpq's.
            duplicate = socket.socket(fileno=os.dup(self._connection.pgconn.socket))
            with duplicate:
                duplicate.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the session; what is not committed is lost."""
        self.close_beside()
        self._connection.close()

    def close_beside(self) -> None:
        """End the session for notes."""
        if self.beside is not None:
            self.beside.close()
            self.beside = None

    def _copy(self, parts: Sequence[SpoolPart]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            for piece in encode_rows(
                self.source.source_id,
                parts,
                format_name=self._format_name,
                encoding=self._encoding,
            ):
                copy.write(piece)

    def _note(self, batch: Batch) -> None:
        """Record losses and buckets with the changes they belong to."""
        source_id = self.source.source_id
        for name, reason in batch.losses.items():
            add_lost_table(self._connection, source_id, name, reason, batch.position)
            mark_unfiltered(self._connection, source_id, name, reason)
        for name, bucket in batch.buckets.items():
            put_into_bucket(self._connection, source_id, name, bucket)
        if batch.parked:
            park_records(self._connection, source_id, batch.parked)
        if batch.settled:
            settle_parked_records(self._connection, source_id, batch.settled)
        if batch.offsets and isinstance(batch.position, Lsn):
            move_partitions(self._connection, source_id, batch.offsets)
            record_position(
                self._connection, source_id, batch.position, batch.offsets, batch.source_lsn
            )

    def _count(self, batch: Batch) -> None:
        """Add up what is counted with the commit."""
        self._written_bytes += batch.byte_count
        received = self._received
        received.transaction_count += batch.transaction_count
        received.change_count += batch.change_count
        if any(part.kind == "serial" for part in batch.parts):
            # Such a transaction is alone in its segment, and what it wrote before is serial now.
            received.serial_transaction_count += batch.transaction_count
            received.serial_change_count = received.change_count

    def _commit(self, batch: Batch, position: Position, news: str) -> None:
        """Record the position and commit, in one round trip."""
        notify = SQL("select pg_notify({}, {});").format(Literal(CHANNEL), Literal(news))
        statement = SQL("{record}{notify}{origin}commit").format(
            record=record_received(
                self.source.source_id,
                seq=batch.last_seq,
                position=position,
                commit_at=batch.commit_at,
                received=self._received,
            ),
            origin=SQL("select pg_replication_origin_xact_setup({}, clock_timestamp());").format(
                Literal(position)
            )
            if self._holds_origin
            else SQL(""),
            notify=notify if batch.parts else SQL(""),
        )
        with confirmed(self._connection, self._endpoint):
            self._connection.execute(statement)
