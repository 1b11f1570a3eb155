"""Messages become segments of whole transactions. No I/O: bytes in, batches out.

Small transactions gather in one parallel segment until somebody asks for it (``flush``) or it
reaches ``limit_bytes``. A transaction with DDL or TRUNCATE is a serial segment of its own. A
transaction that alone reaches the limit leaves in parts, batches without a position; the batch of
its last part has one. What is held here is thus never more than the limit and one message.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.batch import Batch
from pgrepl.receiver.plugin import Action, Plugin, Transaction
from pgrepl.receiver.protocol import HEADER_BYTES
from pgrepl.receiver.routes import Route, Router, TableName
from pgrepl.receiver.segment import BEGIN_BUCKET, build_parts
from pgrepl.spool import PAYLOAD_LIMIT, SpoolPart

__all__ = ["Assembler"]

logger = logging.getLogger(__name__)

# Members of an Enum are slow to look up, and each message asks for several.
_CHANGE = Action.CHANGE
_COMMIT = Action.COMMIT
_BEGIN = Action.BEGIN

_LOST_IDENTITY = "an UPDATE or DELETE could not be replicated: the table has no replica identity"
_LOST_FLOAT = "NaN or Infinity arrived as null: wal2json before 2.6 cannot print it"


@dataclass(slots=True)
class _Lone:
    """The segment of a single transaction, while its parts leave."""

    part_count: int = 0
    is_serial: bool = False


class Assembler:
    """Takes the stream message by message and fills ``ready`` with batches."""

    def __init__(
        self,
        *,
        plugin: Plugin,
        router: Router,
        start: Lsn,
        last_seq: int,
        limit_bytes: int,
        codec: str = "utf-8",
        has_text_numbers: bool = False,
        stop_lsn: Lsn | None = None,
    ) -> None:
        """Begin outside any transaction, with everything before ``start`` received."""
        self.ready: deque[Batch] = deque()
        #: Every transaction whose commit LSN lies before it was taken whole.
        self.received: int = start
        self.is_in_transaction = False
        #: Everything before ``stop_lsn`` was taken; whatever comes then is not for us.
        self.is_finished = False

        self._plugin = plugin
        self._router = router
        self._limit_bytes = limit_bytes
        self._codec = codec
        self._checks_floats = not has_text_numbers
        self._stop_lsn = stop_lsn
        self._last_seq = last_seq
        # By the plugin's key: routes, and the buckets of tables of which no more need be known.
        self._routes: dict[bytes, Route] = {}
        self._plain: dict[bytes, int] = {}
        self._specials: list[bytes] = []
        # What is held: whole transactions first, then the one in hand, from _mark on.
        self._lines: list[bytes] = []
        self._buckets: list[int] = []
        self._bytes = 0
        self._mark = 0
        # Of the whole ones.
        self._transaction_count = 0
        self._last_begin = b""
        self._last_end = 0
        self._segment_losses: dict[TableName, str] = {}
        # Of the one in hand.
        self._begin = b""
        self._is_serial = False
        self._has_ddl = False
        self._losses: dict[TableName, str] = {}
        self._lone: _Lone | None = None

    @property
    def has_segment(self) -> bool:
        """Whether whole transactions wait for a flush."""
        return self._mark > 0 or bool(self._segment_losses)

    @property
    def is_settled(self) -> bool:
        """Whether everything before ``received`` has left, and nothing behind it."""
        return not self.has_segment and self._lone is None and not self.ready

    def take(self, frames: Iterable[memoryview]) -> bool:
        """Take XLogData frames; true when there are batches to fetch or the end is reached."""
        # The hot path: what a plain change needs is at hand without a call.
        actions, prefix_bytes = self._plugin.actions, self._plugin.prefix_bytes
        table_key, plain, specials = self._plugin.table_key, self._plain, self._specials
        lines, buckets, limit_bytes = self._lines, self._buckets, self._limit_bytes
        for frame in () if self.is_finished else frames:
            message = frame[HEADER_BYTES:].tobytes()
            action = actions.get(message[:prefix_bytes])
            if action is _CHANGE and not specials:
                bucket = plain.get(table_key(message))
                if bucket is not None:
                    lines.append(message)
                    buckets.append(bucket)
                    self._bytes += len(message)
                    if self._bytes >= limit_bytes:
                        self._relieve()
                    continue
            self._take_other(action, message, frame)
            if self.is_finished:
                break
        return self.is_finished or bool(self.ready)

    def take_notice(self, severity: str, text: str) -> None:
        """Heed what the plugin said before the next message."""
        if severity == "WARNING":
            self._take_warning(text)
            return
        special = self._plugin.special_value(text)
        if special is not None:
            self._specials.append(special)

    def take_wal_end(self, wal_end: Lsn) -> None:
        """Move on with the source while it has nothing for us."""
        if self.is_in_transaction or self.is_finished:
            return
        self.received = max(self.received, wal_end)
        if self._stop_lsn is not None and self.received >= self._stop_lsn:
            self.is_finished = True

    def flush(self) -> None:
        """End the segment, if there is one; a transaction in hand is not part of it."""
        if not self.has_segment:
            return
        lines, buckets = self._lines[: self._mark], self._buckets[: self._mark]
        parts: Sequence[SpoolPart] = ()
        commit_at = None
        byte_count = self._bytes if self._mark == len(self._lines) else sum(map(len, lines))
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
                position=Lsn(self.received),
                last_seq=self._last_seq,
                commit_at=commit_at,
                losses=self._segment_losses,
                buckets=self._router.take_fresh(),
                transaction_count=self._transaction_count,
                change_count=len(lines) - self._transaction_count,
                byte_count=byte_count,
            )
        )
        del self._lines[: self._mark], self._buckets[: self._mark]
        self._bytes -= byte_count
        self._mark = self._transaction_count = 0
        self._segment_losses = {}

    def position_batch(self) -> Batch:
        """Return a batch that only moves the position; right when all is settled."""
        return Batch(position=Lsn(self.received), last_seq=self._last_seq)

    def _take_other(self, action: Action | None, message: bytes, frame: memoryview) -> None:
        """Take whatever is not a change of a table that is known to be plain."""
        if action is _COMMIT:
            self._take_commit(message, int.from_bytes(frame[1:9], "big"))
        elif action is _BEGIN:
            self._take_begin(message)
        elif action is _CHANGE:
            self._take_change(message)
        elif action is Action.TRUNCATE:
            self._take_change(message, is_truncate=True)
        elif action is not Action.MESSAGE:
            raise SpoolError(
                f"the source sent a message that is not {self._plugin.name}'s format 2"
            )

    def _take_warning(self, text: str) -> None:
        lost = self._plugin.lost_table(text)
        if lost is None:
            # Its text may quote a value; the source's own log has it.
            logger.warning("the source sent a warning; see its log")
            return
        # What was printed of the change is not sent either.
        self._specials.clear()
        name = self._router.lost_table(lost)
        if name is not None:
            self._losses.setdefault(name, _LOST_IDENTITY)

    def _take_begin(self, begin: bytes) -> None:
        if self.is_in_transaction or len(self._lines) != self._mark:
            raise SpoolError("the source sent changes outside a transaction, or two at once")
        stop = self._stop_lsn
        if stop is not None and self._plugin.commit_lsn(begin) >= stop:
            # Transactions come in the order of their commit, so none before it is left.
            self.received = max(self.received, stop)
            self.is_finished = True
            return
        self.is_in_transaction = True
        self._begin = begin
        self._specials.clear()
        self._hold(begin, BEGIN_BUCKET)

    def _take_change(self, message: bytes, *, is_truncate: bool = False) -> None:
        """Take a change of a table of which more must be known than its bucket."""
        if not self.is_in_transaction:
            raise SpoolError("the source sent a change outside any transaction")
        route = self._find_route(message)
        if route.bucket is None:
            self._specials.clear()
            return
        if route.is_ddl:
            # An insert is DDL that ran; a delete is somebody who tidied up.
            if not self._plugin.is_insert(message):
                return
            self._has_ddl = True
        self._is_serial |= is_truncate or route.is_ddl
        if self._specials or (route.floats is not None and self._checks_floats):
            message = self._check_floats(message, route)
        if len(message) > PAYLOAD_LIMIT:
            raise SpoolError(_too_big(route.name))
        self._hold(message, route.bucket)
        if self._bytes >= self._limit_bytes:
            self._relieve()

    def _find_route(self, message: bytes) -> Route:
        key = self._plugin.table_key(message)
        route = self._routes.get(key)
        if route is None:
            route = self._router.route(self._plugin.table_name(message, self._codec))
            if self._plugin.is_whole_key(key):
                self._routes[key] = route
                is_watched = route.is_ddl or (route.floats is not None and self._checks_floats)
                if route.bucket is not None and not is_watched:
                    self._plain[key] = route.bucket
        return route

    def _hold(self, message: bytes, bucket: int) -> None:
        self._lines.append(message)
        self._buckets.append(bucket)
        self._bytes += len(message)

    def _take_commit(self, commit: bytes, end_lsn: int) -> None:
        if not self.is_in_transaction or not self._plugin.is_end_of(self._begin, commit):
            raise SpoolError("the source committed a transaction that it did not begin")
        if end_lsn <= self.received:
            raise SpoolError(
                f"the source sent a transaction that ended at {Lsn(end_lsn)} again;"
                f" everything up to {Lsn(self.received)} was received"
            )
        is_empty = len(self._lines) == self._mark + 1
        if self._lone is not None or (self._is_serial and not is_empty):
            self.flush()
            self.received = end_lsn
            self._emit_lone(Lsn(end_lsn))
        else:
            self.received = end_lsn
            if is_empty:
                self._drop_held()
            else:
                self._mark = len(self._lines)
                self._transaction_count += 1
                self._last_begin = self._begin
                self._last_end = end_lsn
            self._segment_losses.update(self._losses)
        self._end_transaction()

    def _relieve(self) -> None:
        """Let go of whole transactions, and of the one in hand if it alone is too much."""
        self.flush()
        if self._bytes >= self._limit_bytes:
            big, bucket = self._lines[-1], self._buckets[-1]
            if len(big) > PAYLOAD_LIMIT:
                raise SpoolError(
                    _too_big(self._plugin.table_name(big, self._codec)),
                    hint="Exclude the table, or keep such values out of it.",
                )
            if len(big) >= self._limit_bytes and len(self._lines) > len((self._begin, big)):
                # A line as big as PostgreSQL can hold needs a payload of its own.
                self._lines.pop()
                self._buckets.pop()
                self._bytes -= len(big)
                self._emit_lone(None)
                self._hold(self._begin, BEGIN_BUCKET)
                self._hold(big, bucket)
            self._emit_lone(None)
            self._hold(self._begin, BEGIN_BUCKET)

    def _emit_lone(self, position: Lsn | None) -> None:
        """Hand over what is held of a transaction that has a segment of its own."""
        transaction = self._plugin.transaction(self._begin)
        if position is not None:
            _check_end(transaction, position)
        if self._lone is None:
            self._last_seq += 1
            self._lone = _Lone()
        lone = self._lone
        turns_serial = self._is_serial and not lone.is_serial and lone.part_count > 0
        lone.is_serial = self._is_serial
        parts: list[SpoolPart] = []
        if len(self._lines) > 1:
            parts = build_parts(
                self._lines,
                self._buckets,
                seq=self._last_seq,
                first_part=lone.part_count,
                kind="serial" if lone.is_serial else "parallel",
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
                losses=self._losses,
                buckets=self._router.take_fresh(),
                turns_serial=self._last_seq if turns_serial else None,
                transaction_count=1 if position is not None else 0,
                change_count=len(self._lines) - 1,
                byte_count=self._bytes,
            )
        )
        self._losses = {}
        self._drop_held()

    def _drop_held(self) -> None:
        """Forget the lines of the transaction in hand."""
        self._bytes -= sum(map(len, self._lines[self._mark :]))
        del self._lines[self._mark :], self._buckets[self._mark :]

    def _end_transaction(self) -> None:
        if self._has_ddl:
            self._router.forget()
            self._routes.clear()
            self._plain.clear()
        self.is_in_transaction = self._is_serial = self._has_ddl = False
        self._losses = {}
        self._lone = None

    def _check_floats(self, message: bytes, route: Route) -> bytes:
        """Put special values back, or note that they are lost."""
        specials = tuple(self._specials)
        if specials:
            self._specials.clear()
            restored = None if route.floats is None else route.floats.restore(message, specials)
            if restored is not None:
                return restored
            self._losses.setdefault(route.name, _LOST_FLOAT)
        elif route.floats is not None and route.floats.has_lost(message):
            self._losses.setdefault(route.name, _LOST_FLOAT)
        return message


def _check_end(transaction: Transaction, end_lsn: int) -> None:
    """Compare what a begin message announced with where the commit's frame stood."""
    if transaction.end_lsn != end_lsn:
        raise SpoolError(
            f"the source ended a transaction at {Lsn(end_lsn)}"
            f" that it had begun to end at {transaction.end_lsn}"
        )


def _too_big(name: TableName) -> str:
    return f'a change of table "{name[0]}"."{name[1]}" is too big for the spool: 1 GB and more'
