"""A segment while it grows: the lines of its transactions, sorted into buckets."""

from __future__ import annotations

from collections.abc import Sequence

from pgrepl.errors import SpoolError
from pgrepl.lsn import Lsn
from pgrepl.receiver.plugin import Plugin
from pgrepl.receiver.routes import TableName
from pgrepl.spool import SERIAL_BUCKET, SegmentKind, SpoolPart

__all__ = ["OpenSegment"]

#: Lines longer than this are handed on as they are; shorter ones are joined to one piece.
_BIG_LINE_BYTES = 1 << 20


class OpenSegment:
    """Gathers whole transactions, or the parts of a single one."""

    def __init__(self, seq: int, plugin: Plugin) -> None:
        """Begin with nothing."""
        self.seq = seq
        self.kind: SegmentKind = "parallel"
        self.byte_count = 0
        self.transaction_count = 0
        self.change_count = 0
        self.losses: dict[TableName, str] = {}
        #: Where its last transaction ended, as the frame of the commit said.
        self.end_lsn: int | None = None
        self._plugin = plugin
        self._first_begin = b""
        self._last_begin = b""
        self._lines: dict[int, list[bytes]] = {}
        self._begin_counts: dict[int, int] = {}
        self._part = 0

    @property
    def has_changes(self) -> bool:
        """Whether it is more than a note of losses."""
        return bool(self._first_begin)

    @property
    def last_commit_at(self) -> int | None:
        """When its newest transaction committed."""
        return self._plugin.transaction(self._last_begin).commit_at if self._last_begin else None

    def add(self, begin: bytes, lines: Sequence[bytes], buckets: Sequence[int]) -> None:
        """Add changes of one transaction, each to the bucket of its table."""
        self.transaction_count += 1
        if not lines:
            return
        if not self._first_begin:
            self._first_begin = begin
        self._last_begin = begin
        self.change_count += len(lines)
        if self.kind == "serial":
            self._open(SERIAL_BUCKET, begin).extend(lines)
            return
        touched: dict[int, list[bytes]] = {}
        for bucket, line in zip(buckets, lines, strict=True):
            if bucket in touched:
                touched[bucket].append(line)
            else:
                touched[bucket] = opened = self._open(bucket, begin)
                opened.append(line)

    def turn_serial(self) -> int | None:
        """Make it serial; returns its seq if parts of it left as parallel ones."""
        was_parallel = self.kind == "parallel"
        self.kind = "serial"
        return self.seq if was_parallel and self._part else None

    def take_parts(self) -> list[SpoolPart]:
        """Return what was added as parts and forget it."""
        if not self._lines:
            return []
        first = self._plugin.transaction(self._first_begin)
        last = self._plugin.transaction(self._last_begin)
        if self.end_lsn is not None and self.end_lsn != last.end_lsn:
            raise SpoolError(
                f"the source ended a transaction at {Lsn(self.end_lsn)}"
                f" that it had begun to end at {last.end_lsn}"
            )
        parts = []
        for bucket, lines in self._lines.items():
            parts.append(
                SpoolPart(
                    seq=self.seq,
                    bucket=bucket,
                    part=self._part,
                    kind=self.kind,
                    first_lsn=first.commit_lsn,
                    last_lsn=last.end_lsn,
                    first_commit_at=first.commit_at,
                    last_commit_at=last.commit_at,
                    change_count=len(lines) - self._begin_counts[bucket],
                    payload=_payload(lines),
                )
            )
            self._part += 1
        self._lines.clear()
        self._begin_counts.clear()
        return parts

    def _open(self, bucket: int, begin: bytes) -> list[bytes]:
        """Return a bucket's lines with the begin line of a transaction added."""
        lines = self._lines.setdefault(bucket, [])
        lines.append(begin)
        self._begin_counts[bucket] = self._begin_counts.get(bucket, 0) + 1
        return lines


def _payload(lines: Sequence[bytes]) -> Sequence[bytes]:
    """Join lines by newlines, without copying the big ones."""
    if max(map(len, lines)) < _BIG_LINE_BYTES:
        return (b"\n".join(lines),)
    pieces = []
    for line in lines:
        pieces += [line, b"\n"]
    return pieces[:-1]
