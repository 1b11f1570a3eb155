"""What the receiving side hands to the writing side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgrepl.lsn import Lsn
from pgrepl.position import Position
from pgrepl.receiver.routing import TableName
from pgrepl.store.spool.spool_format import SpoolPart
from pgrepl.store.streams import OffsetMove, ParkedRecord

__all__ = ["Batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Parts to write into the open target transaction, and mostly a position to commit with it."""

    parts: Sequence[SpoolPart] = ()
    #: What is received once this is committed. None: a transaction goes on, nothing is committed.
    position: Position | None
    last_seq: int
    #: When the newest transaction in it committed, in microseconds since 2000.
    commit_at: int | None = None
    #: Tables that lost changes, and why.
    losses: Mapping[TableName, str] = field(default_factory=dict)
    #: Buckets that tables were newly put into.
    buckets: Mapping[TableName, int] = field(default_factory=dict)
    #: A segment whose parts written so far must become serial.
    turns_serial: int | None = None
    transaction_count: int = 0
    change_count: int = 0
    byte_count: int = 0
    #: Of a source of records: the partitions that moved, and the records that cannot be read.
    offsets: Sequence[OffsetMove] = ()
    parked: Sequence[ParkedRecord] = ()
    #: Records that do not wait any more: topic, partition and offset.
    settled: Sequence[tuple[str, int, int]] = ()
    #: Where the database stood that a stream tells of, if it says so.
    source_lsn: Lsn | None = None
