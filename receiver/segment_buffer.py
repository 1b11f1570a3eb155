"""What is held of the stream, and how it leaves: as batches of whole transactions, or in parts.

Small transactions gather in one parallel segment until somebody asks for it (``flush``). A
transaction with DDL or TRUNCATE is a serial segment of its own. A transaction that alone reaches
the limit leaves in parts, batches without a position; the batch of its last part has one. What is
held here is thus never more than the limit, or one message.

Lines are sorted into their buckets as they come: to do it at the end would keep the source waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgrepl.decoding.stream import StreamDecoder, Transaction
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.batch import Batch
from pgrepl.receiver.pile import Pile
from pgrepl.receiver.routing import TableName
from pgrepl.receiver.segment import Lines, build_parts
from pgrepl.spool import SERIAL_BUCKET, SpoolPart

__all__ = ["Gathering"]


@dataclass(slots=True)
class _Lone:
    """The segment of a single transaction, while its parts leave."""

    part_count: int = 0
    is_serial: bool = False


class Gathering:
    """Piles of lines: of whole transactions, and on top of them of the one in hand."""

    def __init__(
        self,
        *,
        decoder: StreamDecoder,
        last_seq: int,
        limit_bytes: int,
        take_fresh: Callable[[], Mapping[TableName, int]],
    ) -> None:
        """Begin with nothing; ``take_fresh`` returns buckets that tables were newly put into."""
        self.ready: deque[Batch] = deque()
        #: What is held; whoever adds to a pile adds to this.
        self.byte_count = 0
        self.limit_bytes = limit_bytes
        #: Where a serial transaction's lines go, whatever their table.
        self.serial = Pile(SERIAL_BUCKET)
        #: The begin line of the transaction in hand.
        self.begin_line = b""

        self._decoder = decoder
        self._take_fresh = take_fresh
        self._last_seq = last_seq
        self._piles: dict[int, Pile] = {}
        # Of the transaction in hand.
        self._is_in_hand = False
        self._lone: _Lone | None = None
        #: Whether parts of the transaction in hand have left already.
        self.is_leaving = False
        # Of the whole ones.
        self._begins: list[bytes] = []
        self._whole_bytes = 0
        self._last_end = 0
        self._losses: dict[TableName, str] = {}

    @property
    def has_segment(self) -> bool:
        """Whether whole transactions wait for a flush."""
        return bool(self._begins or self._losses)

    @property
    def is_settled(self) -> bool:
        """Whether everything has left that came, but for a transaction in hand."""
        return not self.has_segment and self._lone is None and not self.ready

    @property
    def _has_lines(self) -> bool:
        """Whether changes of the transaction in hand are held."""
        return self.byte_count > self._whole_bytes + len(self.begin_line)

    def pile(self, bucket: int) -> Pile:
        """Return the pile of a bucket."""
        found = self._piles.get(bucket)
        if found is None:
            found = self._piles[bucket] = Pile(bucket)
        return found

    def begin(self, begin: bytes) -> None:
        """Take a transaction in hand."""
        self.begin_line = begin
        self._is_in_hand = True
        self._whole_bytes = self.byte_count
        self.byte_count += len(begin)

    def hold(self, line: bytes, pile: Pile) -> None:
        """Add a line of the transaction in hand."""
        pile.put(self.begin_line, line)
        self.byte_count += len(line)

    def keep(self, end_lsn: int, losses: Mapping[TableName, str]) -> None:
        """Count the transaction in hand among the whole ones; of an empty one only its losses."""
        if self._has_lines:
            self._begins.append(self.begin_line)
            self._last_end = end_lsn
        else:
            self.byte_count = self._whole_bytes
        self._is_in_hand = False
        if losses:
            self._losses.update(losses)

    def turn_serial(self) -> None:
        """Put what is held of the transaction in hand into one stream, each bucket in its order."""
        for pile in self._piles.values():
            for line in pile.take_of(self.begin_line):
                self.serial.put(self.begin_line, line)

    def flush(self, position: int) -> None:
        """End the segment, if there is one; a transaction in hand is not part of it."""
        if not self.has_segment:
            return
        byte_count = self._whole_bytes if self._is_in_hand else self.byte_count
        parts: Sequence[SpoolPart] = ()
        commit_at = None
        if self._begins:
            self._last_seq += 1
            last = self._decoder.transaction(self._begins[-1])
            _check_end(last, self._last_end)
            commit_at = last.commit_at
            parts = build_parts(
                self._take_whole(),
                seq=self._last_seq,
                first_part=0,
                kind="parallel",
                first=self._decoder.transaction(self._begins[0]),
                last=last,
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
                transaction_count=len(self._begins),
                change_count=sum(part.change_count for part in parts),
                byte_count=byte_count,
            )
        )
        self.byte_count -= byte_count
        self._whole_bytes = 0
        self._begins = []
        self._losses = {}

    def end_alone(self, position: Lsn, *, is_serial: bool, losses: Mapping[TableName, str]) -> None:
        """Let the transaction in hand leave as the last of its own segment."""
        self._emit(position, is_serial=is_serial, losses=losses)
        self._lone = None
        self._is_in_hand = self.is_leaving = False
        self.byte_count = 0

    def make_room(
        self,
        byte_count: int,
        position: int,
        *,
        is_serial: bool,
        losses: Mapping[TableName, str],
    ) -> bool:
        """Let go of whole transactions, and of the one in hand if it leaves no room for a line.

        Returns whether some of the one in hand left; its losses so far left with it.
        """
        self.flush(position)
        if self.byte_count + byte_count < self.limit_bytes or not self._has_lines:
            return False
        self._emit(None, is_serial=is_serial, losses=losses)
        self.byte_count = len(self.begin_line)
        return True

    def position_batch(self, position: int) -> Batch:
        """Return a batch that only moves the position; right when all is settled."""
        return Batch(position=Lsn(position), last_seq=self._last_seq)

    def _take_whole(self) -> list[Lines]:
        """Take the lines of whole transactions out of the piles."""
        piles = self._piles.values()
        if not self._is_in_hand:
            return [(pile.bucket, *pile.take()) for pile in piles]
        return [(pile.bucket, *pile.take_but(self.begin_line)) for pile in piles]

    def _emit(
        self, position: Lsn | None, *, is_serial: bool, losses: Mapping[TableName, str]
    ) -> None:
        """Hand over what is held of a transaction that has a segment of its own."""
        transaction = self._decoder.transaction(self.begin_line)
        if position is not None:
            _check_end(transaction, position)
        if self._lone is None:
            self._last_seq += 1
            self._lone = _Lone()
            self.is_leaving = True
        lone = self._lone
        turns_serial = is_serial and not lone.is_serial and lone.part_count > 0
        lone.is_serial = is_serial
        piles = [self.serial] if is_serial else self._piles.values()
        parts = build_parts(
            [(pile.bucket, *pile.take()) for pile in piles],
            seq=self._last_seq,
            first_part=lone.part_count,
            kind="serial" if is_serial else "parallel",
            first=transaction,
            last=transaction,
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
                byte_count=self.byte_count,
            )
        )


def _check_end(transaction: Transaction, end_lsn: int) -> None:
    """Compare what a begin message announced with where the commit's frame stood."""
    if transaction.end_lsn != end_lsn:
        raise SpoolError(
            f"the source ended a transaction at {Lsn(end_lsn)}"
            f" that it had begun to end at {transaction.end_lsn}"
        )
