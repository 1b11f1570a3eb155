"""Whether to pull from the slot by SQL or to stream, and how much to pull at once. No I/O.

The walsender makes a system call for each message: streaming a backlog takes half as much CPU time
again as reading it through ``pg_logical_slot_get_binary_changes``, which sends many at once. But
each such call decodes again what lies between the slot's ``restart_lsn`` and the position that was
received, returns nothing before all of it is decoded, and keeps the result on the source meanwhile.
So calls have to be big, and not too big; and near the end of the source's WAL streaming is better.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.lsn import Lsn
from pgrepl.receiver.settings import ReceiverSettings

__all__ = ["Backlog", "Chunk", "Standing"]

#: The most rows of a chunk, as a multiple of those of the one before it.
_GROWTH = 4
#: A chunk has hardly any messages when its WAL is this many times as big.
_LITTLE = 16


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a slot and its receiver stand."""

    #: The end of what can be read: of the source's WAL, or what was asked for if that is nearer.
    end: Lsn
    #: Whether nothing beyond it will be asked for.
    is_last: bool
    received: Lsn
    #: Where the source has to begin to decode.
    restart: Lsn
    #: Whether the source sends only what its standbys have; it does not look at them for a copy of
    #: the slot.
    awaits_standbys: bool = False

    @property
    def behind_bytes(self) -> int:
        """WAL that is to be read."""
        return max(self.end - self.received, 0)

    @property
    def again_bytes(self) -> int:
        """WAL that each call decodes again."""
        return max(self.received - self.restart, 0)


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one call reads: whole transactions, until one of the limits is reached."""

    upto: Lsn
    max_rows: int
    #: WAL in it that was not read before.
    new_bytes: int = 0


class Backlog:
    """Decides, and learns from each chunk how big the next one may be."""

    def __init__(self, settings: ReceiverSettings) -> None:
        """Begin with a small chunk."""
        self._settings = settings
        self._max_rows = settings.pull_first_rows
        #: What was too much for one call is streamed: nothing is pulled before this.
        self._stream_until = Lsn(0)

    def is_worth_pulling(self, standing: Standing, *, is_pulling: bool) -> bool:
        """Whether to begin, or to go on."""
        settings = self._settings
        if not is_pulling:
            enough = settings.pull_from_bytes
        else:
            # To begin to stream for the last bit of it would take longer.
            enough = 1 if standing.is_last else settings.pull_while_bytes
        return (
            not standing.awaits_standbys
            and standing.behind_bytes >= enough
            and standing.received >= self._stream_until
            # A transaction that stays open holds the slot back; streaming decodes from there once.
            and standing.again_bytes <= settings.pull_again_bytes
        )

    def plan(self, standing: Standing) -> Chunk:
        """Return what to read next."""
        # The more is decoded again, the more has to be new.
        window = max(self._settings.pull_window_bytes, standing.again_bytes // 2)
        upto = Lsn(min(standing.received + window, standing.end))
        return Chunk(upto, self._max_rows, max(upto - standing.received, 0))

    def learn(self, chunk: Chunk, *, rows: int, byte_count: int, decode_s: float) -> None:
        """Note what a chunk took: bytes that the source kept, and seconds to decode it."""
        settings = self._settings
        if rows < chunk.max_rows:
            is_much = chunk.new_bytes >= settings.pull_from_bytes
            if is_much and byte_count * _LITTLE < chunk.new_bytes:
                # It is a big transaction's that goes on, which each call would decode again and its
                # last one keep as a whole; or nobody's, which is as cheap to stream.
                self._stream_until = Lsn(chunk.upto + settings.pull_window_bytes)
            return
        factor = min(
            settings.pull_bytes / max(byte_count, 1),
            settings.pull_decode_s / max(decode_s, 0.001),
            _GROWTH,
        )
        wanted = int(chunk.max_rows * factor)
        self._max_rows = min(max(wanted, settings.pull_first_rows // 2), settings.pull_max_rows)

    def give_up(self, chunk: Chunk) -> None:
        """Note that a chunk was too much for one call: it is streamed."""
        self._stream_until = chunk.upto
        self._max_rows = self._settings.pull_first_rows
