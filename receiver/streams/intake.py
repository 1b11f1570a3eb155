"""Records go in, batches for the spool come out, with the offsets that commit with them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pgrepl.config.model import OnError
from pgrepl.decoding.records.serialized import Datum
from pgrepl.decoding.records.values import UNFORESEEN, json_text, why_unreadable
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.spool.batch import Batch
from pgrepl.receiver.spool.spool_session import SpoolSession
from pgrepl.receiver.streams.changes import Gathered
from pgrepl.receiver.streams.envelopes.envelope import EnvelopeReader
from pgrepl.receiver.streams.record import Part, Place, Record
from pgrepl.store.spool.spool_format import bucket_of
from pgrepl.store.streams import OffsetMove, ParkedRecord, Partition
from pgrepl.terminal import printable

__all__ = ["Intake"]

T = TypeVar("T")
logger = logging.getLogger(__name__)

#: The whole of a record is kept up to here; of a bigger one only where it is.
_KEPT_BYTES = 1 << 20
#: Of one that is parked, besides what is kept of it.
_RECORD_BYTES = 200


class Intake:
    """What was read and is not in a batch yet, of one source."""

    def __init__(
        self,
        spool: SpoolSession,
        envelope: EnvelopeReader,
        partitions: Sequence[Partition],
        *,
        on_error: OnError,
        limit_bytes: int,
        mark_of: Callable[[Place, int], Mapping[str, object]] = lambda _, __: {},
    ) -> None:
        """Go on where the partitions are; what is more than a limit leaves in parts.

        ``mark_of`` returns what else is to be kept with an offset.
        """
        self._source = spool.source.name
        self._envelope = envelope
        self._on_error = on_error
        self._mark_of = mark_of
        self._buckets = dict(spool.read_buckets())
        self._fresh: dict[TableName, int] = {}
        progress = spool.read_progress()
        self._last_seq = 0 if progress is None else progress.last_seq
        #: What is in a batch already, and what was read.
        self._committed: dict[Place, int] = {}
        self._read: dict[Place, int] = {}
        for partition in partitions:
            self.add(partition)
        self._limit_bytes = limit_bytes
        self._gathered = Gathered(self, limit_bytes)
        self._parked: list[ParkedRecord] = []
        self._parked_bytes = 0
        self._hand_over: Callable[[Batch], None] | None = None
        #: Whether something left that is not committed yet.
        self._is_open = False

    def attach(self, hand_over: Callable[[Batch], None]) -> None:
        """Say where parts go that leave before their segment is whole."""
        self._hand_over = hand_over

    def add(self, partition: Partition) -> None:
        """Take up a partition."""
        place = partition.topic, partition.partition
        self._committed[place] = self._read[place] = partition.next_offset

    @property
    def places(self) -> Sequence[Place]:
        """The partitions."""
        return list(self._read)

    @property
    def position(self) -> Lsn:
        """Where the source is: the sum of what is in batches."""
        return Lsn(sum(self._committed.values()))

    @property
    def byte_count(self) -> int:
        """How much waits to leave."""
        return self._gathered.byte_count + self._parked_bytes

    @property
    def has_changes(self) -> bool:
        """Whether something waits to leave that is more than a position."""
        return bool(self._gathered.change_count or self._parked or self._is_open)

    @property
    def has_moved(self) -> bool:
        """Whether a partition was read on."""
        return any(self._next(place) != self._committed[place] for place in self._read)

    def next_offset(self, place: Place) -> int:
        """Return the offset of the next record of a partition."""
        return self._read[place]

    def take(self, record: Record) -> None:
        """Take a record; one that cannot be read is parked alone."""
        problem = record.problem
        if problem is None:
            try:
                self._envelope.take(record, self._gathered)
            except UNFORESEEN as exc:
                problem = why_unreadable(exc)
        if problem is not None:
            self.park(record, problem)
        self._read[record.place] = record.next_offset

    def gather(self, fill: Callable[[Gathered], T]) -> T:
        """Let others add changes, of records that were read long ago."""
        return fill(self._gathered)

    def pass_to(self, place: Place, offset: int) -> None:
        """Take note that nothing stands before an offset: marks of transactions are no records."""
        self._read[place] = max(self._read[place], offset)

    def settle(self) -> None:
        """Nothing more is to be expected for now."""
        self._envelope.settle(self._gathered)

    def is_full(self, place: Place) -> bool:
        """Whether a partition is better not read on for now."""
        return self._envelope.is_full(place)

    def batch(self) -> Batch:
        """Return what waits, and the offsets with it."""
        first = self.position
        moves = [
            OffsetMove(*place, self._committed[place], self._next(place), self._state(place))
            for place in self._read
            if self._next(place) != self._committed[place]
        ]
        for move in moves:
            self._committed[move.topic, move.partition] = move.next_offset
        self._is_open = False
        return self._batch(first, self.position, moves)

    def make_room(self) -> None:
        """Let what waits leave, as parts of a segment whose rest follows."""
        if self._hand_over is None:
            raise AssertionError("parts need somewhere to go")
        self._hand_over(self._batch(self.position, None, ()))
        self._is_open = True

    def park(self, record: Record, reason: str) -> None:
        """Keep a record that cannot be read."""
        # It may quote a name with characters that no text of PostgreSQL's can have.
        reason = printable(reason)
        topic, partition = record.place
        where = f"topic {topic}, partition {partition}, offset {record.offset}"
        if self._on_error == "stop":
            raise SpoolError(
                f'source "{self._source}": {where}: {reason}',
                hint='Nothing after it is received. Set on_error = "park" to go on without it.',
            )
        logger.error("parked a record: %s: %s", where, reason)
        is_small = record.size <= _KEPT_BYTES
        kept = (_bytes(record.key), _bytes(record.value)) if is_small else (None, None)
        self._parked.append(ParkedRecord(topic, partition, record.offset, reason, *kept))
        self._parked_bytes += _RECORD_BYTES + len(reason) + (record.size if is_small else 0)
        if self._parked_bytes >= self._limit_bytes:
            self._let_parked_go()

    def _let_parked_go(self) -> None:
        """Let parked records leave alone: the last change of a segment stays to end it."""
        if self._hand_over is None:
            raise AssertionError("parts need somewhere to go")
        parked, byte_count = self._parked, self._parked_bytes
        self._parked, self._parked_bytes = [], 0
        self._hand_over(
            Batch(position=None, last_seq=self._last_seq, byte_count=byte_count, parked=parked)
        )
        self._is_open = True

    def bucket_of(self, name: TableName) -> int:
        """Return the bucket of a table."""
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = self._fresh[name] = bucket_of(self._source, *name)
        return bucket

    def _batch(self, first: Lsn, position: Lsn | None, moves: Sequence[OffsetMove]) -> Batch:
        """Return what waits; without a position its segment goes on."""
        gathered = self._gathered
        if gathered.change_count and not gathered.is_segment_open:
            self._last_seq += 1
        change_count, byte_count = gathered.change_count, gathered.byte_count + self._parked_bytes
        commit_at = gathered.commit_at if change_count else None
        turns_serial = self._last_seq if gathered.turns_serial else None
        parked, self._parked, self._parked_bytes = self._parked, [], 0
        fresh, self._fresh = self._fresh, {}
        return Batch(
            parts=gathered.take_parts(
                self._last_seq, first, position or first, is_end=position is not None
            ),
            position=position,
            last_seq=self._last_seq,
            commit_at=commit_at,
            buckets=fresh,
            turns_serial=turns_serial,
            transaction_count=1 if change_count and position is not None else 0,
            change_count=change_count,
            byte_count=byte_count,
            offsets=moves,
            parked=parked,
            source_lsn=self._envelope.source_lsn,
        )

    def _next(self, place: Place) -> int:
        waiting = self._envelope.first_waiting(place)
        return self._read[place] if waiting is None else waiting

    def _state(self, place: Place) -> dict[str, object]:
        return {
            **self._envelope.state_of(place),
            **self._mark_of(place, self._next(place)),
        }


def _bytes(part: Part) -> bytes | None:
    """Return what is kept of a key or a value, for people."""
    if not isinstance(part, Datum):
        return part
    try:
        return json_text(part.value).encode()
    except ValueError:
        return None
