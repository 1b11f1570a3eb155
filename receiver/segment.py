"""Lines become the parts of a segment: sorted into buckets, or one stream. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgrepl.receiver.plugin import Transaction
from pgrepl.spool import SERIAL_BUCKET, SegmentKind, SpoolPart

__all__ = ["BEGIN_BUCKET", "build_parts"]

#: Stands for a begin line among the buckets of lines: it goes wherever its changes go.
BEGIN_BUCKET = -2

#: Lines longer than this are handed on as they are; shorter ones are joined to one piece.
_BIG_LINE_BYTES = 1 << 20


def build_parts(
    lines: Sequence[bytes],
    buckets: Iterable[int],
    *,
    seq: int,
    first_part: int,
    kind: SegmentKind,
    first: Transaction,
    last: Transaction,
) -> list[SpoolPart]:
    """Return the parts of a run of transactions, each of which begins with its begin line."""
    if kind == "serial":
        sorted_lines = {SERIAL_BUCKET: list(lines)}
        begin_counts = {SERIAL_BUCKET: 1}
    else:
        sorted_lines, begin_counts = _sort(lines, buckets)
    return [
        SpoolPart(
            seq=seq,
            bucket=bucket,
            part=first_part + number,
            kind=kind,
            first_lsn=first.commit_lsn,
            last_lsn=last.end_lsn,
            first_commit_at=first.commit_at,
            last_commit_at=last.commit_at,
            change_count=len(own) - begin_counts[bucket],
            payload=_payload(own),
        )
        for number, (bucket, own) in enumerate(sorted_lines.items())
    ]


def _sort(
    lines: Sequence[bytes], buckets: Iterable[int]
) -> tuple[dict[int, list[bytes]], dict[int, int]]:
    """Give every line to its bucket, with a begin line before a transaction's first one there."""
    found: dict[int, list[bytes]] = {}
    begin_counts: dict[int, int] = {}
    # Of the transaction at hand: the buckets it has reached so far.
    begin = b""
    reached: dict[int, list[bytes]] = {}
    for bucket, line in zip(buckets, lines, strict=True):
        if bucket in reached:
            reached[bucket].append(line)
        elif bucket == BEGIN_BUCKET:
            begin = line
            reached = {}
        else:
            own = found.get(bucket)
            if own is None:
                own = found[bucket] = []
                begin_counts[bucket] = 0
            begin_counts[bucket] += 1
            own.append(begin)
            own.append(line)
            reached[bucket] = own
    return found, begin_counts


def _payload(lines: Sequence[bytes]) -> Sequence[bytes]:
    """Join lines by newlines, without copying the big ones."""
    if max(map(len, lines)) < _BIG_LINE_BYTES:
        return (b"\n".join(lines),)
    pieces = []
    for line in lines:
        pieces += [line, b"\n"]
    return pieces[:-1]
