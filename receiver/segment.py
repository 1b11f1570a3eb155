"""Piles of lines become the parts of a segment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgrepl.decoding.stream import Transaction
from pgrepl.spool import SegmentKind, SpoolPart

__all__ = ["Lines", "build_parts"]

#: A bucket, lines of it, and how many of them begin a transaction.
Lines = tuple[int, Sequence[bytes], int]

#: Lines longer than this are handed on as they are; shorter ones are joined to one piece.
_BIG_LINE_BYTES = 1 << 20


def build_parts(
    sorted_lines: Iterable[Lines],
    *,
    seq: int,
    first_part: int,
    kind: SegmentKind,
    first: Transaction,
    last: Transaction,
    is_end: bool,
) -> list[SpoolPart]:
    """Return the parts of a run of transactions; buckets without lines have none.

    ``is_end`` says that no others of the segment follow.
    """
    found = [own for own in sorted_lines if own[1]]
    last_part = first_part + len(found) - 1
    return [
        SpoolPart(
            seq=seq,
            bucket=bucket,
            part=number,
            kind=kind,
            first_lsn=first.commit_lsn,
            last_lsn=last.end_lsn,
            first_commit_at=first.commit_at,
            last_commit_at=last.commit_at,
            change_count=len(lines) - begin_count,
            is_last=is_end and number == last_part,
            payload=_payload(lines),
        )
        for number, (bucket, lines, begin_count) in enumerate(found, start=first_part)
    ]


def _payload(lines: Sequence[bytes]) -> Sequence[bytes]:
    """Join lines by newlines, without copying the big ones."""
    if max(map(len, lines)) < _BIG_LINE_BYTES:
        return (b"\n".join(lines),)
    pieces = []
    for line in lines:
        pieces += [line, b"\n"]
    return pieces[:-1]
