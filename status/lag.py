"""How far each step lags the source, in bytes of WAL and in seconds.

Bytes are exact. Seconds are an upper bound: a source does not say when a position of its WAL was
written, but the target knows when the newest transaction it has was committed, or when it last
heard that there was none. A step that has everything has no lag, however long ago that was.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pgrepl.lsn import Lsn
from pgrepl.status.facts import SourceFacts, TargetFacts

__all__ = ["Positions", "Step", "measure"]


@dataclass(frozen=True, slots=True)
class Step:
    """A position, and how far it lags the source."""

    lsn: Lsn
    #: None when the source does not say where it stands.
    lag_bytes: int | None
    lag_s: float


@dataclass(frozen=True, slots=True)
class Positions:
    """Where the source is, and how far each step lags it."""

    source: Lsn | None
    #: The receiver has it, in memory at least.
    received: Step
    #: The spool has it, on disk: the source may forget it.
    flushed: Step
    #: The tables have it.
    applied: Step


def measure(source: SourceFacts | None, target: TargetFacts) -> Positions | None:
    """Return the positions of a source that streams; None before its copy is whole."""
    row = target.row
    flushed_lsn = row.received_lsn or row.consistent_point
    if row.state != "streaming" or flushed_lsn is None:
        return None
    source_lsn = source.lsn if source is not None else None
    flushed_s = _flushed_s(source, target)
    # The source was asked first, so that a step may even be ahead of its answer.
    flushed = _step(flushed_lsn, source_lsn, flushed_s)
    received_lsn = max(flushed_lsn, (source.write_lsn if source else None) or flushed_lsn)
    received = _step(received_lsn, source_lsn, flushed_s)
    return Positions(source_lsn, received, flushed, _applied(source, target, flushed))


def _applied(source: SourceFacts | None, target: TargetFacts, flushed: Step) -> Step:
    row = target.row
    if row.waiting_since is None:
        return flushed
    applied_lsn = max(filter(None, (row.applied_lsn, row.published_lsn)), default=flushed.lsn)
    waits_s = _seconds_since(row.waiting_since, _source_clock(source, target))
    return _step(applied_lsn, source.lsn if source else None, max(waits_s, flushed.lag_s))


def _step(lsn: Lsn, source_lsn: Lsn | None, lag_s: float) -> Step:
    if source_lsn is None:
        return Step(lsn, None, lag_s)
    lag_bytes = max(source_lsn - lsn, 0)
    return Step(lsn, lag_bytes, lag_s if lag_bytes else 0.0)


def _flushed_s(source: SourceFacts | None, target: TargetFacts) -> float:
    """Return how long ago the spool had everything, for certain."""
    row = target.row
    if row.ends_in_changes and row.commit_at is not None:
        return _seconds_since(row.commit_at, _source_clock(source, target))
    # There was nothing to receive last, or replay keeps up and has applied it.
    return _seconds_since(row.received_at or row.created_at, target.clock_at)


def _source_clock(source: SourceFacts | None, target: TargetFacts) -> datetime:
    """Return the source's clock, which wrote the times of its commits; if it is down, ours."""
    return source.clock_at if source is not None else target.clock_at


def _seconds_since(at: datetime, now: datetime) -> float:
    # Clocks that differ must not make a lag negative.
    return max((now - at).total_seconds(), 0.0)
