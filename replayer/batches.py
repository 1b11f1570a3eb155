"""Which segments make the next batch of a source. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pgrepl.errors import SpoolError
from pgrepl.position import Position
from pgrepl.store.spool.spool_format import SegmentKind
from pgrepl.store.spool.spool_rows import Segment

__all__ = [
    "Batch",
    "Limits",
    "Segment",
    "check_segment",
    "missing_segment",
    "plan_batch",
    "shard_buckets",
    "slice_counts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much goes into one batch."""

    seconds: int
    changes: int
    #: How many serial segments that follow one another are applied together, with how many changes.
    serial_segments: int = 1
    serial_changes: int = 0
    #: Nothing whose transactions all committed at or after this position; None: no end.
    until: Position | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A run of segments, all parallel or all serial."""

    kind: SegmentKind
    #: The segment before the first, and the last.
    from_seq: int
    to_seq: int
    first_lsn: Position
    last_lsn: Position
    last_commit_at: datetime
    change_count: int
    buckets: frozenset[int]
    #: How many of the changes each bucket has.
    bucket_changes: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_single(self) -> bool:
        """Whether it is one segment."""
        return self.to_seq - self.from_seq == 1


def plan_batch(segments: Sequence[Segment], from_seq: int, limits: Limits) -> Batch | None:
    """Return the next batch after a segment; None when there is nothing to do.

    Raises
    ------
    SpoolError
        when rows are missing.

    """
    chosen: list[Segment] = []
    change_count = 0
    for number, segment in enumerate(segments, from_seq + 1):
        if limits.until is not None and segment.first_lsn >= limits.until:
            break
        if chosen and not _fits(chosen, segment, change_count, limits):
            break
        check_segment(segment, number)
        chosen.append(segment)
        change_count += segment.change_count
    if not chosen:
        return None
    last = chosen[-1]
    return Batch(
        kind=last.kind,
        from_seq=from_seq,
        to_seq=last.seq,
        first_lsn=chosen[0].first_lsn,
        last_lsn=last.last_lsn,
        last_commit_at=last.last_commit_at,
        change_count=change_count,
        buckets=frozenset(bucket for segment in chosen for bucket in segment.buckets),
        bucket_changes=_count_changes(chosen),
    )


def slice_counts(
    dealt: Mapping[int, Sequence[int]], changes: Mapping[int, int], shard_count: int
) -> dict[int, int]:
    """Deal sessions to shards by their changes; each has one at least.

    Together they are as many as there are shards, and fewer than twice as many. A shard with a few
    changes leaves its part to the others: one table often has nearly all.
    """
    own = {
        shard: sum(changes.get(bucket, 1) for bucket in buckets) for shard, buckets in dealt.items()
    }
    total = max(1, sum(own.values()))
    # From a third of a session on it is worth another one.
    return {
        shard: max(1, (3 * shard_count * count + 2 * total) // (3 * total))
        for shard, count in own.items()
    }


def shard_buckets(buckets: frozenset[int], shard_count: int) -> dict[int, list[int]]:
    """Deal buckets to shards; a shard without any is not there."""
    dealt: dict[int, list[int]] = {}
    for bucket in sorted(buckets):
        dealt.setdefault(bucket % shard_count, []).append(bucket)
    return dealt


def _fits(chosen: Sequence[Segment], segment: Segment, change_count: int, limits: Limits) -> bool:
    # A serial segment is a barrier: it is applied when all before it is.
    first = chosen[0]
    if segment.kind != first.kind:
        return False
    if segment.kind == "serial":
        return (
            len(chosen) < limits.serial_segments
            and change_count + segment.change_count <= limits.serial_changes
        )
    return (
        change_count + segment.change_count <= limits.changes
        and segment.last_commit_at - first.first_commit_at <= timedelta(seconds=limits.seconds)
    )


def check_segment(segment: Segment, number: int) -> None:
    """Refuse a segment that is not the one of that number, or that is not whole.

    Raises
    ------
    SpoolError
        which names what is missing.

    """
    if segment.seq != number:
        raise _incomplete(f"segment {number} is missing, the next one is {segment.seq}")
    if segment.part_count != segment.written_count:
        raise _incomplete(
            f"segment {segment.seq} has {segment.part_count} rows,"
            f" {segment.written_count} were written"
        )
    if not segment.has_end:
        raise _incomplete(f"the last row of segment {segment.seq} is missing")
    if not segment.is_sound:
        raise _incomplete(f"a row of segment {segment.seq} is not as it was written")


def missing_segment(number: int) -> SpoolError:
    """Return the error for a segment that was written and is not there."""
    return _incomplete(f"segment {number} is missing")


def _incomplete(what: str) -> SpoolError:
    return SpoolError(
        f"the spool is corrupted: {what}",
        hint="Nothing after it is applied. If the rows cannot be had back, copy the source again:"
        " pgrepl basebackup SOURCE --restart",
    )


def _count_changes(segments: Sequence[Segment]) -> dict[int, int]:
    found: dict[int, int] = {}
    for segment in segments:
        for bucket, count in zip(segment.buckets, segment.bucket_changes, strict=False):
            found[bucket] = found.get(bucket, 0) + count
    return found
