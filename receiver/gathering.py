"""What is held of the stream, and how it leaves: as batches of whole transactions, or in parts.

Small transactions gather in one parallel segment until somebody asks for it (``flush``). A
transaction with DDL or TRUNCATE is a serial segment of its own. A transaction that alone reaches
the limit leaves in parts, batches without a position; the batch of its last part has one. What is
held here is thus never more than the limit and one message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.batch import Batch
from pgrepl.receiver.plugin import Plugin, Transaction
from pgrepl.receiver.routes import TableName
from pgrepl.receiver.segment import BEGIN_BUCKET, build_parts
from pgrepl.spool import SpoolPart

__all__ = ["Gathering"]


@dataclass(slots=True)
class _Lone:
    """The segment of a single transaction, while its parts leave."""

    part_count: int = 0
    is_serial: bool = False


class Gathering:
    """Lines in the order they came: whole transactions first, then the one in hand."""

    def __init__(
        self,
        *,
        plugin: Plugin,
        last_seq: int,
        limit_bytes: int,
        take_fresh: Callable[[], Mapping[TableName, int]],
    ) -> None:
        """Begin with nothing; ``take_fresh`` returns buckets that tables were newly put into."""
        self.ready: deque[Batch] = deque()
        # Whoever fills them quickly does so without a call, and keeps the three in step.
        self.lines: list[bytes] = []
        self.buckets: list[int] = []
        self.byte_count = 0
        self.limit_bytes = limit_bytes

        self._plugin = plugin
        self._take_fresh = take_fresh
        self._last_seq = last_seq
        # The one in hand begins here.
        self._mark = 0
        self._begin = b""
        self._lone: _Lone | None = None
        #: Whether parts of the transaction in hand have left already.
        self.is_leaving = False
        # Of the whole ones.
        self._transaction_count = 0
        self._last_begin = b""
        self._last_end = 0
        self._losses: dict[TableName, str] = {}

    @property
    def has_segment(self) -> bool:
        """Whether whole transactions wait for a flush."""
        return self._mark > 0 or bool(self._losses)

    @property
    def is_settled(self) -> bool:
        """Whether everything has left that came, but for a transaction in hand."""
        return not self.has_segment and self._lone is None and not self.ready

    @property
    def is_empty(self) -> bool:
        """Whether the transaction in hand has no change so far, and none that has left."""
        return self._lone is None and len(self.lines) == self._mark + 1

    def begin(self, begin: bytes) -> None:
        """Take a transaction in hand.

        Raises
        ------
        SpoolError
            when lines are held that belong to no whole transaction.

        """
        if len(self.lines) != self._mark:
            raise SpoolError("the source sent changes outside a transaction, or two at once")
        self._begin = begin
        self.lines.append(begin)
        self.buckets.append(BEGIN_BUCKET)
        self.byte_count += len(begin)

    def hold(self, line: bytes, bucket: int) -> None:
        """Add a line."""
        self.lines.append(line)
        self.buckets.append(bucket)
        self.byte_count += len(line)

    def keep(self, end_lsn: int, losses: Mapping[TableName, str]) -> None:
        """Count the transaction in hand among the whole ones; of an empty one only its losses."""
        count = len(self.lines)
        if count == self._mark + 1:
            self._drop()
        else:
            self._mark = count
            self._transaction_count += 1
            self._last_begin = self._begin
            self._last_end = end_lsn
        if losses:
            self._losses.update(losses)

    def flush(self, position: int) -> None:
        """End the segment, if there is one; a transaction in hand is not part of it."""
        if not self.has_segment:
            return
        lines, buckets = self.lines[: self._mark], self.buckets[: self._mark]
        is_all = len(lines) == len(self.lines)
        byte_count = self.byte_count if is_all else sum(map(len, lines))
        parts: Sequence[SpoolPart] = ()
        commit_at = None
        if lines:
            self._last_seq += 1
            first = self._plugin.transaction(lines[0])
            last = self._plugin.transaction(self._last_begin)
            _check_end(last, self._last_end)
            commit_at = last.commit_at
            parts = build_parts(
                lines,
                buckets,
                seq=self._last_seq,
                first_part=0,
                kind="parallel",
                first=first,
                last=last,
            )
        self.ready.append(
            Batch(
                parts=parts,
                position=Lsn(position),
                last_seq=self._last_seq,
                commit_at=commit_at,
                losses=self._losses,
                buckets=self._take_fresh(),
                transaction_count=self._transaction_count,
                change_count=len(lines) - self._transaction_count,
                byte_count=byte_count,
            )
        )
        del self.lines[: self._mark], self.buckets[: self._mark]
        self.byte_count -= byte_count
        self._mark = self._transaction_count = 0
        self._losses = {}

    def end_alone(self, position: Lsn, *, is_serial: bool, losses: Mapping[TableName, str]) -> None:
        """Let the transaction in hand leave as the last of its own segment."""
        self._emit(position, is_serial=is_serial, losses=losses)
        self._lone = None
        self.is_leaving = False

    def relieve(self, position: int, *, is_serial: bool, losses: Mapping[TableName, str]) -> bool:
        """Let go of whole transactions, and of the one in hand if it alone is too much.

        Returns whether some of the one in hand left; its losses so far left with it.
        """
        self.flush(position)
        if self.byte_count < self.limit_bytes:
            return False
        big, bucket = self.lines[-1], self.buckets[-1]
        if len(big) >= self.limit_bytes and len(self.lines) > len((self._begin, big)):
            # A line as big as PostgreSQL can hold needs a payload of its own.
            self.lines.pop()
            self.buckets.pop()
            self.byte_count -= len(big)
            self._emit(None, is_serial=is_serial, losses=losses)
            losses = {}
            self.hold(self._begin, BEGIN_BUCKET)
            self.hold(big, bucket)
        self._emit(None, is_serial=is_serial, losses=losses)
        self.hold(self._begin, BEGIN_BUCKET)
        return True

    def position_batch(self, position: int) -> Batch:
        """Return a batch that only moves the position; right when all is settled."""
        return Batch(position=Lsn(position), last_seq=self._last_seq)

    def _emit(
        self, position: Lsn | None, *, is_serial: bool, losses: Mapping[TableName, str]
    ) -> None:
        """Hand over what is held of a transaction that has a segment of its own."""
        transaction = self._plugin.transaction(self._begin)
        if position is not None:
            _check_end(transaction, position)
        if self._lone is None:
            self._last_seq += 1
            self._lone = _Lone()
            self.is_leaving = True
        lone = self._lone
        turns_serial = is_serial and not lone.is_serial and lone.part_count > 0
        lone.is_serial = is_serial
        parts: list[SpoolPart] = []
        if len(self.lines) > 1:
            parts = build_parts(
                self.lines,
                self.buckets,
                seq=self._last_seq,
                first_part=lone.part_count,
                kind="serial" if is_serial else "parallel",
                first=transaction,
                last=transaction,
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
                change_count=len(self.lines) - 1,
                byte_count=self.byte_count,
            )
        )
        self._drop()

    def _drop(self) -> None:
        """Forget the lines of the transaction in hand."""
        self.byte_count -= sum(map(len, self.lines[self._mark :]))
        del self.lines[self._mark :], self.buckets[self._mark :]


def _check_end(transaction: Transaction, end_lsn: int) -> None:
    """Compare what a begin message announced with where the commit's frame stood."""
    if transaction.end_lsn != end_lsn:
        raise SpoolError(
            f"the source ended a transaction at {Lsn(end_lsn)}"
            f" that it had begun to end at {transaction.end_lsn}"
        )
