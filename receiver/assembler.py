"""Messages become segments of whole transactions. No I/O: bytes in, batches out.

Small transactions gather in one parallel segment until somebody asks for it (``flush``) or it
reaches ``limit_bytes``. A transaction with DDL or TRUNCATE is a serial segment of its own. A
transaction that alone reaches the limit leaves in parts, batches without a position; the batch of
its last part has one. What is held here is thus never more than the limit and one message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.batch import Batch
from pgrepl.receiver.plugin import Action, Plugin
from pgrepl.receiver.protocol import HEADER_BYTES
from pgrepl.receiver.routes import Route, Router, TableName
from pgrepl.receiver.segment import OpenSegment
from pgrepl.spool import PAYLOAD_LIMIT

__all__ = ["Assembler"]

_LOST_IDENTITY = "an UPDATE or DELETE could not be replicated: the table has no replica identity"
_LOST_FLOAT = "NaN or Infinity arrived as null: wal2json before 2.6 cannot print it"


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
        #: Everything before ``stop_lsn`` was taken; the rest of the stream is not for us.
        self.is_finished = False
        #: End the segment with the transaction in hand.
        self.must_flush = False

        self._plugin = plugin
        self._router = router
        self._limit_bytes = limit_bytes
        self._codec = codec
        self._checks_floats = not has_text_numbers
        self._stop_lsn = stop_lsn
        self._last_seq = last_seq
        self._routes: dict[bytes, Route] = {}
        self._specials: list[bytes] = []
        self._segment: OpenSegment | None = None
        # Of the transaction in hand.
        self._begin = b""
        self._lines: list[bytes] = []
        self._buckets: list[int] = []
        self._bytes = 0
        self._is_serial = False
        self._has_ddl = False
        self._losses: dict[TableName, str] = {}
        self._spilling: OpenSegment | None = None

    @property
    def has_segment(self) -> bool:
        """Whether whole transactions wait for a flush."""
        return self._segment is not None

    def take(self, frame: memoryview) -> bool:
        """Take one XLogData frame; true when there are batches to fetch or the end is reached."""
        message = bytes(frame[HEADER_BYTES:])
        plugin = self._plugin
        action = plugin.actions.get(message[: plugin.prefix_bytes])
        if action is Action.CHANGE:
            key = plugin.table_key(message)
            route = self._routes.get(key) or self._find_route(key, message)
            if route.bucket is None:
                self._specials.clear()
                return False
            if self._specials or (route.floats is not None and self._checks_floats):
                message = self._check_floats(message, route)
            self._lines.append(message)
            self._buckets.append(route.bucket)
            self._bytes += len(message)
            if route.is_ddl:
                self._take_ddl(message)
            if self._bytes >= self._limit_bytes:
                if len(message) > PAYLOAD_LIMIT:
                    raise SpoolError(_too_big(route.name))
                self._spill()
                return True
            return False
        if action is Action.COMMIT:
            self._take_commit(message, int.from_bytes(frame[1:9], "big"))
            return bool(self.ready)
        if action is Action.BEGIN:
            self._take_begin(message)
            return self.is_finished
        if action is Action.TRUNCATE:
            self._take_truncate(message)
        elif action is not Action.MESSAGE:
            raise SpoolError(f"the source sent a message that is not {plugin.name}'s format 2")
        return False

    def take_special(self, value: bytes) -> None:
        """Note a special float value that the next change will show as null."""
        self._specials.append(value)

    def take_loss(self, text: str) -> TableName | None:
        """Note a warning that a change of a table could not be sent; returns the table."""
        name = self._router.lost_table(text)
        if name is not None:
            self._losses.setdefault(name, _LOST_IDENTITY)
        return name

    def take_wal_end(self, wal_end: Lsn) -> None:
        """Move on with the source while it has nothing for us."""
        if self.is_in_transaction:
            return
        self.received = max(self.received, wal_end)
        if self._stop_lsn is not None and self.received >= self._stop_lsn:
            self.is_finished = True

    def flush(self) -> None:
        """End the segment, if there is one."""
        self.must_flush = False
        segment, self._segment = self._segment, None
        if segment is not None:
            self.ready.append(
                Batch(
                    parts=segment.take_parts(),
                    position=Lsn(self.received),
                    last_seq=segment.seq,
                    commit_at=segment.last_commit_at,
                    losses=segment.losses,
                    buckets=self._router.take_fresh(),
                    transaction_count=segment.transaction_count,
                    change_count=segment.change_count,
                    byte_count=segment.byte_count,
                )
            )

    def position_batch(self) -> Batch:
        """Return a batch that only moves the position; everything taken must be flushed."""
        return Batch(position=Lsn(self.received), last_seq=self._last_seq)

    def _take_begin(self, begin: bytes) -> None:
        if self.is_in_transaction or self._lines:
            raise SpoolError("the source sent changes outside a transaction, or two at once")
        self._specials.clear()
        stop = self._stop_lsn
        if stop is not None and self._plugin.transaction(begin).commit_lsn >= stop:
            # Transactions come in the order of their commit, so none before it is left.
            self.received = max(self.received, stop)
            self.is_finished = True
            return
        self.is_in_transaction = True
        self._begin = begin

    def _take_truncate(self, message: bytes) -> None:
        key = self._plugin.table_key(message)
        route = self._routes.get(key) or self._find_route(key, message)
        if route.bucket is None:
            return
        self._is_serial = True
        self._lines.append(message)
        self._buckets.append(route.bucket)
        self._bytes += len(message)

    def _take_ddl(self, message: bytes) -> None:
        """An insert is DDL that ran; a delete is somebody who tidied up."""
        if message.startswith(b'{"action":"I"'):
            self._is_serial = self._has_ddl = True
            return
        self._lines.pop()
        self._buckets.pop()
        self._bytes -= len(message)

    def _take_commit(self, commit: bytes, end_lsn: int) -> None:
        if not self.is_in_transaction or not self._plugin.is_end_of(self._begin, commit):
            raise SpoolError("the source committed a transaction that it did not begin")
        if self._spilling is not None or (self._is_serial and self._lines):
            self.flush()
            self.received = end_lsn
            self._emit_lone(Lsn(end_lsn))
        else:
            self.received = end_lsn
            if self._lines or self._losses:
                self._join_segment(end_lsn)
        self._reset()
        segment = self._segment
        if segment is not None and (self.must_flush or segment.byte_count >= self._limit_bytes):
            self.flush()

    def _join_segment(self, end_lsn: int) -> None:
        if self._segment is None:
            if self._lines:
                self._last_seq += 1
            self._segment = OpenSegment(self._last_seq, self._plugin)
        elif self._lines and not self._segment.has_changes:
            self._last_seq += 1
            self._segment.seq = self._last_seq
        self._segment.add(self._begin, self._lines, self._buckets)
        if self._lines:
            self._segment.end_lsn = end_lsn
        self._segment.byte_count += self._bytes
        self._segment.losses.update(self._losses)

    def _spill(self) -> None:
        """Let the transaction in hand leave in parts."""
        self.flush()
        big, bucket = self._lines[-1], self._buckets[-1]
        if len(big) > self._limit_bytes and len(self._lines) > 1:
            # A line as big as PostgreSQL can hold needs a payload of its own.
            self._lines.pop()
            self._buckets.pop()
            self._emit_lone(None)
            self._lines, self._buckets = [big], [bucket]
        self._emit_lone(None)
        self._lines, self._buckets, self._bytes = [], [], 0
        self._losses = {}

    def _emit_lone(self, position: Lsn | None) -> None:
        """Hand over what is held of a transaction that has a segment of its own."""
        segment = self._spilling
        if segment is None:
            self._last_seq += 1
            segment = self._spilling = OpenSegment(self._last_seq, self._plugin)
        turns_serial = segment.turn_serial() if self._is_serial else None
        change_count = len(self._lines)
        segment.add(self._begin, self._lines, self._buckets)
        segment.end_lsn = position
        self.ready.append(
            Batch(
                parts=segment.take_parts(),
                position=position,
                last_seq=segment.seq,
                commit_at=segment.last_commit_at,
                losses=self._losses,
                buckets=self._router.take_fresh(),
                turns_serial=turns_serial,
                transaction_count=1 if position is not None else 0,
                change_count=change_count,
                byte_count=self._bytes,
            )
        )

    def _reset(self) -> None:
        if self._has_ddl:
            self._router.forget()
            self._routes.clear()
        self.is_in_transaction = self._is_serial = self._has_ddl = False
        self._lines, self._buckets, self._bytes = [], [], 0
        self._losses = {}
        self._spilling = None

    def _find_route(self, key: bytes, message: bytes) -> Route:
        if not self.is_in_transaction:
            raise SpoolError("the source sent a change outside any transaction")
        name = self._plugin.table_name(message, self._codec)
        route = self._router.route(name)
        if key:
            self._routes[key] = route
        return route

    def _check_floats(self, message: bytes, route: Route) -> bytes:
        """Put special values back, or note that they are lost."""
        specials: Sequence[bytes] = self._specials
        if specials:
            self._specials = []
            restored = None if route.floats is None else route.floats.restore(message, specials)
            if restored is not None:
                return restored
            self._losses.setdefault(route.name, _LOST_FLOAT)
        elif route.floats is not None and route.floats.has_lost(message):
            self._losses.setdefault(route.name, _LOST_FLOAT)
        return message


def _too_big(name: TableName) -> str:
    return f'a change of table "{name[0]}"."{name[1]}" is too big for the spool: 1 GB and more'
