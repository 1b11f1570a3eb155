"""Segments of the spool as pieces of work for Spark's tasks, and the rows of a piece.

A row is a change; values are PostgreSQL's texts of them. Segments are read whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from pyspark.sql.datasource import InputPartition

from pgrepl.config.dsn import Endpoint
from pgrepl.config.naming import TableSelection
from pgrepl.errors import SpoolError
from pgrepl.export.changes import read_change
from pgrepl.export.transactions import read_transactions
from pgrepl.lsn import Lsn
from pgrepl.postgres.connect import Connection, connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.replayer.batches import check_segment
from pgrepl.store.spool.spool_format import DDL_TABLE
from pgrepl.store.spool.spool_rows import Segment, read_parts, read_segments

__all__ = ["SCHEMA", "SpoolPiece", "SpoolReading", "find_end", "plan_pieces", "read_piece"]

#: ``position`` numbers the changes of a segment: with ``seq`` it is unique, and their order.
SCHEMA = (
    "seq bigint, position bigint, commit_lsn string, commit_at timestamp, xid bigint, op string,"
    " schema_name string, table_name string, before map<string,string>, after map<string,string>"
)
_OPS = {b"I": "c", b"U": "u", b"D": "d", b"T": "t"}
#: How many segments one query looks at.
_SEGMENTS = 1000


@dataclass(frozen=True, slots=True)
class SpoolReading:
    """What tasks need to know; its text holds no secret."""

    target: Endpoint
    source: str
    source_id: int
    tables: tuple[str, ...]
    #: About that many changes are the work of one task.
    piece_changes: int


@dataclass
class SpoolPiece(InputPartition):
    """Some segments of the spool: after one, up to another."""

    from_seq: int
    to_seq: int


def find_end(connection: Connection, source_id: int, from_seq: int, to_seq: int, room: int) -> int:
    """Return the segment up to which there are that many changes at most; at least one segment."""
    count, end = 0, from_seq
    for segment in _read(connection, source_id, from_seq, to_seq):
        count += segment.change_count
        if count > room and end > from_seq:
            break
        end = segment.seq
    return end


def plan_pieces(
    connection: Connection, reading: SpoolReading, from_seq: int, to_seq: int
) -> list[SpoolPiece]:
    """Cut segments into pieces; all of them must be there.

    Raises
    ------
    SpoolError
        when one is not.

    """
    found: list[SpoolPiece] = []
    count, begin, end = 0, from_seq, from_seq
    for segment in _read(connection, reading.source_id, from_seq, to_seq):
        count += segment.change_count
        if count > reading.piece_changes and end > begin:
            found.append(SpoolPiece(begin, end))
            count, begin = segment.change_count, end
        end = segment.seq
    if end > begin:
        found.append(SpoolPiece(begin, end))
    return found


def read_piece(reading: SpoolReading, piece: SpoolPiece) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a piece.

    Raises
    ------
    SpoolError
        when segments of it are not in the spool any more.

    """
    is_selected = cache(TableSelection.of(reading.tables or ("*.*",)).matches)
    with (
        closing(connect(reading.target, "spark")) as connection,
        translated(reading.target, "cannot read the spool"),
        connection.transaction(),
    ):
        # Segments and their rows of one snapshot: replay may remove them meanwhile.
        connection.execute("set transaction isolation level repeatable read, read only")
        buckets: set[int] = set()
        lone: set[int] = set()
        for segment in _read(connection, reading.source_id, piece.from_seq, piece.to_seq):
            buckets.update(segment.buckets)
            if segment.is_lone:
                lone.add(segment.seq)
        parts = read_parts(
            connection, reading.source_id, piece.from_seq, piece.to_seq, sorted(buckets)
        )
        seq = position = 0
        for transaction in read_transactions(parts, frozenset(lone)):
            if transaction.seq != seq:
                seq, position = transaction.seq, 0
            begin = transaction.begin
            at = datetime.fromisoformat(begin.commit_at)
            for decoder, message in transaction.changes():
                position += 1
                name = decoder.names_of(message)
                if name == DDL_TABLE or not is_selected(*name):
                    continue
                change = read_change(decoder, message, name)
                yield (
                    seq,
                    position,
                    str(Lsn(begin.commit_lsn)),
                    at,
                    begin.xid,
                    _OPS[change.action],
                    *name,
                    None if change.old is None else dict(change.old),
                    None if change.new is None else dict(change.new),
                )


def _read(connection: Connection, source_id: int, from_seq: int, to_seq: int) -> Iterator[Segment]:
    """Yield the segments after one up to another, all of them, each whole."""
    seq = from_seq
    while seq < to_seq:
        segments = read_segments(connection, source_id, seq, min(_SEGMENTS, to_seq - seq))
        if not segments or segments[0].seq != seq + 1:
            raise SpoolError(
                f"segment {seq + 1} is not in the spool any more",
                hint="Only streams of a consumer have the spool kept for them. Start over with"
                " another checkpoint and another consumer.",
            )
        for segment in segments:
            seq += 1
            check_segment(segment, seq)
            yield segment
