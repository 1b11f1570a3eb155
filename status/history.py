"""How sources fared: what was written down of them, and the rates that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from pgrepl.config.dsn import Endpoint
from pgrepl.errors import SchemaVersionError
from pgrepl.postgres.connect import connect
from pgrepl.postgres.sqlstate import translated
from pgrepl.status.problems.judge import SourceStatus
from pgrepl.store.migrations import has_step, read_version
from pgrepl.store.monitoring.history import HISTORY_STEP, Look, Sight, read_history, resolution_of

__all__ = ["History", "Point", "history_as_json", "look_of", "read_past"]

_PATIENCE_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Sight):
    """An interval of the past: the most that it saw of a lag or a size, and its mean rates."""

    #: None: unknown, as before the first look.
    wal_bytes_per_second: float | None
    received_per_second: float | None
    applied_per_second: float | None
    transactions_per_second: float | None


@dataclass(frozen=True, slots=True)
class History:
    """The past of some sources."""

    since: timedelta
    #: The length of its intervals.
    resolution: timedelta
    sources: Mapping[str, Sequence[Point]]


def look_of(status: SourceStatus, at: datetime) -> Look | None:
    """Return what is to be written down of a source; None before its copy is whole."""
    target, positions = status.target, status.positions
    if target is None or positions is None:
        return None
    row = target.row
    return Look(
        source_id=row.source_id,
        at=at,
        is_reachable=status.source is not None,
        is_receiving=status.state == "streaming" or target.is_receiving,
        lag_bytes=positions.applied.lag_bytes,
        lag_seconds=positions.applied.lag_s,
        held_bytes=None if status.source is None else status.source.held_bytes,
        spool_bytes=row.byte_count,
        source_lsn=positions.source,
        received_transactions=row.transaction_count,
        received_changes=row.received_change_count,
        applied_changes=sum(counter.change_count for counter in target.batches),
    )


def points(looks: Sequence[Look]) -> list[Point]:
    """Return the points of a source; the first look only begins the rates of the second."""
    return [_point(before, look) for before, look in pairwise(looks)]


def read_past(target: Endpoint, since: timedelta, names: Sequence[str] | None = None) -> History:
    """Read how sources fared.

    Raises
    ------
    TargetError
        when the target does not answer, or has no history yet.

    """
    with (
        connect(target, "status", patience_s=_PATIENCE_S) as connection,
        translated(target, "cannot read the history"),
    ):
        if not read_version(connection) or not has_step(connection, HISTORY_STEP):
            raise SchemaVersionError(
                'target: schema "replication" has no history yet',
                hint="The next receive or replay of this version of pgrepl makes it.",
            )
        found = read_history(connection, since, names)
    return History(
        since, resolution_of(since), {name: points(looks) for name, looks in found.items()}
    )


def history_as_json(history: History) -> dict[str, Any]:
    """Return the past as JSON can hold it, but for times."""
    return {
        "since_seconds": history.since.total_seconds(),
        "resolution_seconds": history.resolution.total_seconds(),
        "sources": {
            name: [asdict(point) for point in found] for name, found in history.sources.items()
        },
    }


def _point(before: Look, look: Look) -> Point:
    seconds = (look.at - before.at).total_seconds()
    wal = None
    if look.source_lsn is not None and before.source_lsn is not None:
        wal = _rate(look.source_lsn - before.source_lsn, seconds)
    return Point(
        at=look.at,
        is_reachable=look.is_reachable,
        is_receiving=look.is_receiving,
        lag_bytes=look.lag_bytes,
        lag_seconds=look.lag_seconds,
        held_bytes=look.held_bytes,
        spool_bytes=look.spool_bytes,
        wal_bytes_per_second=wal,
        received_per_second=_rate(look.received_changes - before.received_changes, seconds),
        applied_per_second=_rate(look.applied_changes - before.applied_changes, seconds),
        transactions_per_second=_rate(
            look.received_transactions - before.received_transactions, seconds
        ),
    )


def _rate(difference: int, seconds: float) -> float | None:
    # A new copy counts from 0 again.
    return round(difference / seconds, 3) if seconds > 0 and difference >= 0 else None
