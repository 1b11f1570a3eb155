"""How replay comes nearer to the last chunk, and whether it follows the source at all. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pgrepl.lsn import Lsn

__all__ = ["Look", "Passing"]

#: Who waits longer than this says what for, and says it again as often.
_TOLD_AFTER_S = 2.0
_TOLD_EVERY_S = 30.0
_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Look:
    """Where replay and the source are at a moment."""

    at: float
    #: What replay has passed, and what it has to pass.
    applied: Lsn
    needed: Lsn
    #: Where the source writes.
    head: Lsn


class Passing:
    """Watches replay until it has passed the last chunk.

    That is a fixed position, so that a replay which moves gets there, whatever the source writes
    meanwhile. How fast it moves compared with the source says whether it will fall behind further.
    """

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._first: Look | None = None
        self._last: Look | None = None
        self._told_at: float | None = None

    def has_moved(self, look: Look) -> bool:
        """Take a look, and say whether replay has moved since the last one."""
        last, self._last = self._last, look
        if self._first is None or look.needed != self._first.needed:
            self._first = look
        return last is None or look.applied > last.applied

    def report(self) -> str | None:
        """Say what is left, if that is due."""
        first, last = self._first, self._last
        if first is None or last is None:
            return None
        since = first.at + _TOLD_AFTER_S if self._told_at is None else self._told_at + _TOLD_EVERY_S
        if last.at < since:
            return None
        self._told_at = last.at
        seconds = last.at - first.at
        pace, written = (
            max(after - before, 0) / seconds if seconds else 0.0
            for before, after in ((first.applied, last.applied), (first.head, last.head))
        )
        left = max(last.needed - last.applied, 0)
        words = [
            f"{left / _MB:.1f} MB of WAL to the last chunk",
            f"replay passes {pace / _MB:.1f} MB/s, the source writes {written / _MB:.1f} MB/s",
        ]
        if not pace:
            words.append("replay does not move")
        elif written > pace:
            words.append("replay does not follow the source")
        return "; ".join(words)
