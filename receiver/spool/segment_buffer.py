"""What is buffered of a stream, and how it leaves: as batches of whole transactions, or in parts.

Small transactions gather in one parallel segment until it is asked for (``flush``). A
transaction with DDL or TRUNCATE is a serial segment of its own. A transaction that alone reaches
the limit leaves in parts, batches without a position; the batch of its last part has one. What is
buffered here is thus never more than the limit, or one message.

Messages are sorted into their buckets as they come: to do it at the end would keep the source
waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgrepl.decoding.stream import StreamDecoder, Transaction
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.flow import Flow
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.spool.batch import Batch
from pgrepl.receiver.spool.bucket_messages import BucketMessages
from pgrepl.store.spool.spool_format import SERIAL_BUCKET, SegmentKind, SpoolPart

__all__ = ["SegmentBuffer"]

#: A bucket, lines of it, and how many of them are no changes.
_Lines = tuple[int, Sequence[bytes], int]


@dataclass(slots=True)
class _Lone:
    """The segment of a single transaction, while its parts leave."""

    part_count: int = 0
    is_serial: bool = False


class SegmentBuffer:
    """Messages by bucket: of whole transactions, and after them of the one in hand."""

    def __init__(
        self,
        *,
        decoder: StreamDecoder,
        flow: Flow,
        last_seq: int,
        take_fresh: Callable[[], Mapping[TableName, int]],
    ) -> None:
        """Begin with nothing; ``take_fresh`` returns buckets that tables were newly put into.

        Whoever adds to a bucket adds to the bytes of ``flow``.
        """
        self.ready: deque[Batch] = deque()
        #: Where a serial transaction's lines go, whatever their table.
        self.serial = BucketMessages(SERIAL_BUCKET)
        self._flow = flow
        self._decoder = decoder
        self._take_fresh = take_fresh
        self._last_seq = last_seq
        self._buckets: dict[int, BucketMessages] = {}
        # Of the transaction in hand.
        self._lone: _Lone | None = None
        #: Whether parts of the transaction in hand have left already.
        self.is_leaving = False
        # Of the whole ones.
        self._losses: dict[TableName, str] = {}

    @property
    def has_segment(self) -> bool:
        """Whether whole transactions wait for a flush."""
        return bool(self._flow.begins or self._losses)

    @property
    def is_settled(self) -> bool:
        """Whether everything has left that came, but for a transaction in hand."""
        return not self.has_segment and self._lone is None and not self.ready

    @property
    def _has_lines(self) -> bool:
        """Whether changes of the transaction in hand are buffered."""
        return self._flow.byte_count > self._flow.whole_bytes + len(self._flow.begin)

    def bucket(self, bucket: int) -> BucketMessages:
        """Return the messages of a bucket."""
        found = self._buckets.get(bucket)
        if found is None:
            found = self._buckets[bucket] = BucketMessages(bucket)
        return found

    def begin(self, begin: bytes) -> None:
        """Take a transaction in hand."""
        flow = self._flow
        flow.begin = begin
        flow.is_in_transaction = True
        flow.whole_bytes = flow.byte_count
        flow.byte_count += len(begin)

    def add(self, line: bytes, bucket: BucketMessages, heads: Mapping[bytes, bytes]) -> None:
        """Add a change of the transaction in hand, with the descriptions that it needs."""
        self._flow.byte_count += len(line) + bucket.put(self._flow.begin, line, heads)

    def keep(self, end_lsn: int, losses: Mapping[TableName, str]) -> None:
        """Count the transaction in hand among the whole ones; of an empty one only its losses."""
        flow = self._flow
        if self._has_lines:
            flow.begins.append(flow.begin)
            flow.last_end = end_lsn
        else:
            flow.byte_count = flow.whole_bytes
        flow.is_in_transaction = False
        if losses:
            self._losses.update(losses)

    def turn_serial(self) -> None:
        """Put what is there of the transaction in hand into one stream, in order by bucket."""
        for own in self._buckets.values():
            own.move_to(self.serial, self._flow.begin)

    def flush(self, position: int) -> None:
        """End the segment, if there is one; a transaction in hand is not part of it."""
        if not self.has_segment:
            return
        byte_count = (
            self._flow.whole_bytes if self._flow.is_in_transaction else self._flow.byte_count
        )
        parts: Sequence[SpoolPart] = ()
        commit_at = None
        if self._flow.begins:
            self._last_seq += 1
            last = self._decoder.transaction(self._flow.begins[-1])
            _check_end(last, self._flow.last_end)
            commit_at = last.commit_at
            parts = self._build_parts(
                self._take_whole(),
                first_part=0,
                kind="parallel",
                first=self._decoder.transaction(self._flow.begins[0]),
                last=last,
                end_lsn=Lsn(self._flow.last_end),
                is_end=True,
            )
        self.ready.append(
            Batch(
                parts=parts,
                position=Lsn(position),
                last_seq=self._last_seq,
                commit_at=commit_at,
                losses=self._losses,
                buckets=self._take_fresh(),
                transaction_count=len(self._flow.begins),
                change_count=sum(part.change_count for part in parts),
                byte_count=byte_count,
            )
        )
        self._flow.byte_count -= byte_count
        self._flow.whole_bytes = 0
        self._flow.begins = []
        self._losses = {}

    def end_alone(self, position: Lsn, *, is_serial: bool, losses: Mapping[TableName, str]) -> None:
        """Let the transaction in hand leave as the last of its own segment."""
        self._emit(position, is_serial=is_serial, losses=losses)
        self._lone = None
        self._flow.is_in_transaction = self.is_leaving = False
        self._flow.byte_count = 0

    def make_room(self, byte_count: int, position: int, *, is_serial: bool) -> None:
        """Let go of whole transactions, and of the one in hand if it leaves no room for a line.

        What the one in hand lost leaves at its end: tables may have other names by then.
        """
        self.flush(position)
        if self._flow.byte_count + byte_count < self._flow.limit_bytes or not self._has_lines:
            return
        self._emit(None, is_serial=is_serial, losses={})
        self._flow.byte_count = len(self._flow.begin)

    def position_batch(self, position: int) -> Batch:
        """Return a batch that only moves the position; right when all is settled."""
        return Batch(position=Lsn(position), last_seq=self._last_seq)

    def _take_whole(self) -> list[_Lines]:
        """Take the lines of whole transactions out of the buckets."""
        buckets = self._buckets.values()
        if not self._flow.is_in_transaction:
            return [(own.bucket, *own.take()) for own in buckets]
        return [(own.bucket, *own.take_but(self._flow.begin)) for own in buckets]

    def _emit(
        self, position: Lsn | None, *, is_serial: bool, losses: Mapping[TableName, str]
    ) -> None:
        """Hand over what is buffered of a transaction that has a segment of its own."""
        transaction = self._decoder.transaction(self._flow.begin)
        if position is not None:
            _check_end(transaction, position)
        if self._lone is None:
            self._last_seq += 1
            self._lone = _Lone()
            self.is_leaving = True
        lone = self._lone
        turns_serial = is_serial and not lone.is_serial and lone.part_count > 0
        lone.is_serial = is_serial
        buckets = [self.serial] if is_serial else self._buckets.values()
        parts = self._build_parts(
            [(own.bucket, *own.take()) for own in buckets],
            first_part=lone.part_count,
            kind="serial" if is_serial else "parallel",
            first=transaction,
            last=transaction,
            # The last part says where the segment ends, if no other knows.
            end_lsn=position or transaction.end_lsn or transaction.commit_lsn,
            is_end=position is not None,
        )
        lone.part_count += len(parts)
        self.ready.append(
            Batch(
                parts=parts,
                position=position,
                last_seq=self._last_seq,
                commit_at=transaction.commit_at,
                losses=losses,
                buckets=self._take_fresh(),
                turns_serial=self._last_seq if turns_serial else None,
                transaction_count=1 if position is not None else 0,
                change_count=sum(part.change_count for part in parts),
                byte_count=self._flow.byte_count,
            )
        )

    def _build_parts(
        self,
        sorted_lines: Iterable[_Lines],
        *,
        first_part: int,
        kind: SegmentKind,
        first: Transaction,
        last: Transaction,
        end_lsn: Lsn,
        is_end: bool,
    ) -> list[SpoolPart]:
        """Return the parts of a run of transactions; buckets without lines have none.

        ``is_end`` says that no others of the segment follow.
        """
        found = [
            (bucket, self._decoder.payload(lines), len(lines) - head_count)
            for bucket, lines, head_count in sorted_lines
            if lines
        ]
        last_part = first_part + len(found) - 1
        return [
            SpoolPart(
                seq=self._last_seq,
                bucket=bucket,
                part=number,
                kind=kind,
                first_lsn=first.commit_lsn,
                last_lsn=end_lsn,
                first_commit_at=first.commit_at,
                last_commit_at=last.commit_at,
                change_count=change_count,
                is_last=is_end and number == last_part,
                format=payload.format,
                payload=payload.pieces,
            )
            for number, (bucket, payload, change_count) in enumerate(found, start=first_part)
        ]


def _check_end(transaction: Transaction, end_lsn: int) -> None:
    """Compare what a begin message announced with where the commit's frame stood."""
    if transaction.end_lsn not in (None, end_lsn):
        raise SpoolError(
            f"the source ended a transaction at {Lsn(end_lsn)}"
            f" that it had begun to end at {transaction.end_lsn}"
        )
