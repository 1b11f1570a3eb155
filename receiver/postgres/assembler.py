"""Messages become segments of whole transactions. No I/O: bytes in, batches out.

This module follows the stream: which transaction is in hand, where each change goes, what was lost
on the way. How lines gather and leave is ``pgrepl.receiver.spool.segment_buffer``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable

from pgrepl.decoding.stream import Action, StreamDecoder
from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.native import Connected, Native, Routed
from pgrepl.receiver.flow import Flow
from pgrepl.receiver.postgres.ddl_watch import DdlWatch
from pgrepl.receiver.postgres.floats import restore_floats
from pgrepl.receiver.postgres.moved_tables import MovedTables
from pgrepl.receiver.postgres.slot.protocol import XLOG_DATA_FRAMING, Framing
from pgrepl.receiver.routing import Route, Router, TableName
from pgrepl.receiver.spool.batch import Batch
from pgrepl.receiver.spool.bucket_messages import BucketMessages
from pgrepl.receiver.spool.segment_buffer import SegmentBuffer
from pgrepl.store.spool.spool_format import PAYLOAD_LIMIT
from pgrepl.store.tables.table_marks import LOST_IDENTITY

__all__ = ["FRAME_BYTES", "Assembler"]

logger = logging.getLogger(__name__)

# Members of an Enum are slow to look up, and each message asks for several.
_CHANGE = Action.CHANGE
_COMMIT = Action.COMMIT
_BEGIN = Action.BEGIN

#: Of no table is known where its lines go.
_NOTHING: dict[bytes, BucketMessages] = {}

#: Keeping a message costs so much more than its size.
FRAME_BYTES = 200


class Assembler:
    """Takes the stream message by message and fills ``ready`` with batches."""

    def __init__(
        self,
        *,
        decoder: StreamDecoder,
        router: Router,
        start: Lsn,
        last_seq: int,
        limit_bytes: int,
        codec: str = "utf-8",
        has_special_values: bool = False,
        stop_lsn: Lsn | None = None,
        ddl_watch: DdlWatch | None = None,
    ) -> None:
        """Begin outside any transaction, with everything before ``start`` received."""
        #: Everything before ``stop_lsn`` was taken; whatever comes then is not for us.
        self.is_finished = False

        self._decoder = decoder
        self._router = router
        self._codec = codec
        self._checks_floats = not has_special_values
        self._stop_lsn = stop_lsn
        self._ddl_watch = ddl_watch
        self._moved = MovedTables() if ddl_watch is None else ddl_watch.moved
        self._flow = Flow(
            received=start,
            limit_bytes=limit_bytes,
            stop=stop_lsn or 0,
            is_json=decoder.key_slice is None,
        )
        self._buffer = SegmentBuffer(
            decoder=decoder, flow=self._flow, last_seq=last_seq, take_fresh=router.take_fresh
        )
        # By the plugin's key: routes, and the buckets of tables of which no more need be known in
        # the serial segment in hand; those in parallel ones are in the flow.
        self._routes: dict[bytes, Route] = {}
        self._plain_serial: dict[bytes, BucketMessages] = {}
        self._specials: list[bytes] = []
        # Of the transaction in hand.
        self._is_serial = False
        self._has_ddl = False
        self._losses: dict[TableName, str] = {}

    @property
    def received(self) -> int:
        """Every transaction whose commit LSN lies before it was taken whole."""
        return self._flow.received

    @property
    def is_in_transaction(self) -> bool:
        """Whether the last message was not the end of a transaction."""
        return self._flow.is_in_transaction

    @property
    def ready(self) -> deque[Batch]:
        """Batches to be written, oldest first; whoever writes them takes them out."""
        return self._buffer.ready

    @property
    def has_segment(self) -> bool:
        """Whether whole transactions wait for a flush."""
        return self._buffer.has_segment

    @property
    def is_settled(self) -> bool:
        """Whether everything before ``received`` has left, and nothing after it."""
        return self._buffer.is_settled

    def take(self, frames: Iterable[memoryview], framing: Framing = XLOG_DATA_FRAMING) -> bool:
        """Take messages; true when there are batches to fetch or the end is reached."""
        # The hot path: what a plain change needs is at hand without a call.
        decoder, flow = self._decoder, self._flow
        header_bytes, lsn_at = framing.header_bytes, framing.lsn_at
        action_at, actions = decoder.action_at, decoder.actions
        key_slice, key_end = decoder.key_slice, decoder.key_end
        limit_bytes, buffered_bytes = flow.limit_bytes, flow.byte_count
        known, key_at, begin = flow.known, flow.key_at, flow.begin
        for frame in () if self.is_finished else frames:
            message = frame[header_bytes:].tobytes()
            if known:
                messages = known.get(
                    message[key_slice]
                    if key_slice
                    else message[key_at : message.find(key_end, key_at)]
                )
                if messages is not None and buffered_bytes + len(message) < limit_bytes:
                    buffered_bytes += len(message)
                    if messages.begin is not begin:
                        messages.begin = begin
                        messages.begin_count += 1
                        messages.add(begin)
                    messages.add(message)
                    continue
            flow.byte_count = buffered_bytes
            action = actions.get(message[action_at])
            if action is _COMMIT:
                self._take_commit(message, int.from_bytes(frame[lsn_at]))
            elif action is _BEGIN:
                self._take_begin(message)
                if self.is_finished:
                    break
            else:
                self._take_other(action, message)
            buffered_bytes = flow.byte_count
            known, key_at, begin = flow.known, flow.key_at, flow.begin
        flow.byte_count = buffered_bytes
        return self.is_finished or bool(self._buffer.ready)

    @property
    def can_route(self) -> bool:
        """Whether ``route`` can take messages: what was said of the next change is for ``take``."""
        return not (self._specials or self._losses or self.is_finished)

    def route(
        self,
        core: Native,
        frames: list[memoryview] | Connected,
        wanted_bytes: int,
        framing: Framing = XLOG_DATA_FRAMING,
    ) -> Routed:
        """Let the compiled core take messages, as many as need no second look.

        It stops before the first other one, which is for ``take``, and after ``wanted_bytes``.
        """
        flow = self._flow
        flow.header_bytes, flow.lsn_at, flow.tag = (
            framing.header_bytes,
            framing.lsn_at.start,
            framing.tag,
        )
        flow.is_alone = self._is_serial or self._buffer.is_leaving
        routed = Routed(*core.route(flow, frames, wanted_bytes, FRAME_BYTES))
        self._know()
        return routed

    def take_notice(self, severity: str, text: str) -> None:
        """Heed what the plugin said before the next message."""
        if severity == "WARNING":
            self._take_warning(text)
            return
        special = self._decoder.special_value(text)
        if special is not None:
            self._specials.append(special)
            self._know()

    def may_lose(self, severity: str, text: str) -> bool:
        """Whether a notice, not in its place, says that a change was not sent."""
        return self._router.may_lose(severity, text)

    def take_wal_end(self, wal_end: Lsn) -> None:
        """Move on with the source while it has nothing for us."""
        if self.is_in_transaction or self.is_finished:
            return
        self._flow.received = max(self.received, wal_end)
        if self._stop_lsn is not None and self.received >= self._stop_lsn:
            self.is_finished = True

    def end_chunk(self, wal_end: Lsn | None) -> None:
        """Note that a run of whole transactions ends here, and everything before ``wal_end``."""
        if self.is_in_transaction:
            raise SpoolError("the source sent a transaction without its end")
        if wal_end is not None:
            self.take_wal_end(wal_end)

    def flush(self) -> None:
        """End the segment, if there is one; a transaction in hand is not part of it."""
        self._buffer.flush(self.received)
        self._need_heads()

    def position_batch(self) -> Batch:
        """Return a batch that only moves the position; right when all is settled."""
        return self._buffer.position_batch(self.received)

    def _take_other(self, action: Action | None, message: bytes) -> None:
        """Take what is neither a begin, nor a commit, nor a change of a plain table."""
        if action is None or not self._decoder.is_message(message):
            raise self._not_its_format()
        if action is _CHANGE:
            self._take_change(message)
        elif action is Action.TRUNCATE:
            for truncate in self._decoder.truncates(message):
                self._take_change(truncate, is_truncate=True)
        elif action is Action.RELATION and self._decoder.learn(message, self._codec):
            # Its name may be another one as well.
            self._routes.clear()
            self._need_heads()

    def _take_warning(self, text: str) -> None:
        lost = self._decoder.lost_table(text)
        if lost is None:
            # Its text may quote a value; the source's own log has it.
            logger.warning("the source sent a warning; see its log")
            return
        # What was printed of the change is not sent either.
        self._specials.clear()
        self._know()
        name = self._router.lost_table(lost, self._flow.begin if self.is_in_transaction else None)
        if name is not None:
            self._losses.setdefault(name, LOST_IDENTITY)

    def _take_begin(self, begin: bytes) -> None:
        if self.is_in_transaction:
            raise SpoolError("the source began a transaction inside another")
        stop = self._stop_lsn
        if stop is None:
            if not self._decoder.is_begin(begin):
                raise self._not_its_format()
        else:
            commit_lsn = self._decoder.commit_lsn(begin)
            if commit_lsn is None:
                raise self._not_its_format()
            if commit_lsn >= stop:
                # Transactions come in the order of their commit, so none before it is left.
                self._flow.received = max(self.received, stop)
                self.is_finished = True
                return
        self._buffer.begin(begin)
        self._flow.key_at = self._decoder.key_at(begin)
        self._flow.known = self._flow.plain
        if self._specials:
            self._specials.clear()

    def _know(self) -> None:
        """See which lines need no second look now."""
        if self._specials or not self.is_in_transaction:
            self._flow.known = _NOTHING
        elif self._is_serial:
            self._flow.known = self._plain_serial
        else:
            self._flow.known = self._flow.plain

    def _take_change(self, message: bytes, *, is_truncate: bool = False) -> None:
        """Take a change of a table of which more must be known than its bucket."""
        if not self.is_in_transaction:
            raise SpoolError("the source sent a change outside any transaction")
        message = self._moved.called_now(self._decoder, message, self._flow.begin, self._codec)
        route = self._find_route(message)
        if route.bucket is not None:
            self._add(message, route, route.bucket, is_truncate=is_truncate)
        if self._specials:
            self._specials.clear()
            self._know()

    def _add(self, message: bytes, route: Route, bucket: int, *, is_truncate: bool) -> None:
        if route.is_ddl:
            # An insert is DDL that ran; a delete is a user who tidied up.
            if not self._decoder.is_insert(message):
                return
            if self._ddl_watch is not None:
                message = self._ddl_watch.take(self._decoder, message, self._codec, self._losses)
            if not self._has_ddl:
                # What follows may be of tables as this command left them, or a later one of the
                # transaction, which has committed: the source knows them all by now.
                self._has_ddl = True
                self._router.forget()
            self._forget_routes()
        buffer = self._buffer
        if (is_truncate or route.is_ddl) and not self._is_serial:
            self._is_serial = True
            buffer.turn_serial()
            self._know()
        if self._specials or (route.floats is not None and self._checks_floats):
            message = restore_floats(message, route, self._specials, self._losses)
        if route.has_rules and not is_truncate:
            # Before the message is kept anywhere. What has rules never takes the short way.
            ruled = self._router.apply_rules(message, route, self._losses)
            if ruled is None:
                return
            message = ruled
        if self._flow.byte_count + len(message) >= self._flow.limit_bytes:
            self._make_room(message)
        own = buffer.serial if self._is_serial else buffer.bucket(bucket)
        buffer.add(message, own, self._decoder.heads_of(message, route.masks))
        self._need_no_look(message, route, own, is_truncate=is_truncate)

    def _need_no_look(
        self, message: bytes, route: Route, own: BucketMessages, *, is_truncate: bool
    ) -> None:
        """Let changes like this one go where it went, unless each is looked at."""
        is_watched = route.has_rules or route.is_ddl or is_truncate or route.name in self._moved
        if is_watched or (route.floats is not None and self._checks_floats):
            return
        key = self._decoder.table_key(message)
        if key in self._routes:
            plain = self._plain_serial if self._is_serial else self._flow.plain
            plain[key] = own

    def _find_route(self, message: bytes) -> Route:
        key = self._decoder.table_key(message)
        route = self._routes.get(key)
        if route is None:
            name = self._decoder.table_name(message, self._codec)
            route = self._router.route(name, self._flow.begin)
            if route.is_lasting and self._decoder.is_whole_key(key):
                self._routes[key] = route
        return route

    def _take_commit(self, commit: bytes, end_lsn: int) -> None:
        buffer = self._buffer
        if not self.is_in_transaction or not self._decoder.is_end_of(self._flow.begin, commit):
            raise SpoolError("the source committed a transaction that it did not begin")
        if end_lsn <= self.received:
            raise SpoolError(
                f"the source sent a transaction that ended at {Lsn(end_lsn)} again;"
                f" everything up to {Lsn(self.received)} was received"
            )
        if self._is_serial or buffer.is_leaving:
            self._commit_alone(end_lsn)
        else:
            buffer.keep(end_lsn, self._losses)
        self._flow.received = end_lsn
        self._flow.known = _NOTHING
        # They are the buffer's now.
        self._losses = {}

    def _commit_alone(self, end_lsn: int) -> None:
        """End a transaction that is a segment of its own."""
        buffer = self._buffer
        buffer.flush(self.received)
        buffer.end_alone(Lsn(end_lsn), is_serial=self._is_serial, losses=self._losses)
        self._need_heads()
        self._plain_serial.clear()
        if self._has_ddl:
            self._router.forget()
            self._forget_routes()
        self._is_serial = self._has_ddl = False

    def _forget_routes(self) -> None:
        """Ask the router again where the changes of tables go."""
        self._routes.clear()
        self._flow.plain.clear()
        self._plain_serial.clear()

    def _need_heads(self) -> None:
        """Look again at the next change of each table: its description may have left."""
        if self._decoder.has_heads:
            self._flow.plain.clear()
            self._plain_serial.clear()

    def _not_its_format(self) -> SpoolError:
        return SpoolError(f"the source sent a message that is not {self._decoder.name}'s")

    def _make_room(self, message: bytes) -> None:
        """Let go of whole transactions, and of the one in hand if it alone is too much."""
        if len(message) > PAYLOAD_LIMIT:
            schema, table = self._decoder.table_name(message, self._codec)
            raise SpoolError(
                f'a change of table "{schema}"."{table}" is too big for the spool: 1 GB and more',
                hint="Exclude the table, or keep such values out of it.",
            )
        self._buffer.make_room(len(message), self.received, is_serial=self._is_serial)
        self._need_heads()
